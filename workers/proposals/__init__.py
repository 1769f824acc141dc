"""What a language model proposes, held against the evidence: claims, words, lessons. No model is called here."""
