"""What is learned above the record key: claims about a tool across its pairs, about everything, and lessons from failures."""
