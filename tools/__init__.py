"""What writes the tables and schemas of this repository. No part of the package: it is for those who change it."""
