"""What a job takes in time and money: the catalogue, prices, and the model of advice."""
