"""How each dialect writes down what agents did: tables of names, and a few ways to write messages."""

from lowwater.detector.simulation.writers.tables import WRITERS

__all__ = ["WRITERS"]
