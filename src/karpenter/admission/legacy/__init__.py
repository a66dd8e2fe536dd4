"""The admission webhook of the alpha kinds."""
