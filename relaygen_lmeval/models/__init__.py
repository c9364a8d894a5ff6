"""The two models of a pair, here or on servers, and the engines that are made of them."""
