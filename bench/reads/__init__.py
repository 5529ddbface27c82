"""What reads cost on many jobs beside the same mix of few."""
