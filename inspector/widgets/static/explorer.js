// placeholder until the first build
