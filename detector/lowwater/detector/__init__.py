"""The detector of lowwater: token ledger, decision rules, operators, command line."""
