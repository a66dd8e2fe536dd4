"""The checks that the API server and the controllers make before an object is used."""
