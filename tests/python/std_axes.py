"""What std/ calls the axes of an image and their two sides, by rank; options that are given for all axes or for each."""

AXES = {
    1: [("", "left", "right")],
    2: [("h", "top", "bottom"), ("w", "left", "right")],
    3: [("t", "front", "back"), ("h", "top", "bottom"), ("w", "left", "right")],
}
NAMES_FIRST = {1: "ncw", 2: "nchw", 3: "ncdhw"}


def for_all_or_each(rng, name, values, define):
    """Adds to `define` the first of the values for all axes, or each for its own: which, is drawn. What it means for
    each axis."""
    rank = len(values)
    if rank == 1 or rng.random() < 0.4:
        values = [values[0]] * rank
        define[name] = values[0]
    else:
        define.update(("%s_%s" % (name, a[0]), v) for a, v in zip(AXES[rank], values))
    return values
