"""The time and cost of a job: the catalogue, prices, and the model of advice."""
