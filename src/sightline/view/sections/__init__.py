"""The shared shell of pages made of sections: parts, HTML and the folder they are written into."""
