"""What is learned online, with river: one small class per learned quantity."""
