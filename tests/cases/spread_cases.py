"""Models spread over two devices."""

from explearn.predictors.architectures import blocks_in_order


def halves(model, first, second):
    """A device map: embeddings and the lower half of the blocks on one place, all else on the other."""
    paths = {id(module): path for path, module in model.named_modules()}
    blocks = [paths[id(block)] for block in dict.fromkeys(blocks_in_order(model.base_model))]
    places = {path: first if number < len(blocks) // 2 else second for number, path in enumerate(blocks)}

    def add(prefix, module):
        for name, child in module.named_children():
            path = f"{prefix}{name}"
            if path in places or not child.state_dict():
                continue
            if any(place.startswith(f"{path}.") for place in places):
                add(f"{path}.", child)
            else:
                early = "embed" in path or path.endswith((".wte", ".wpe"))
                places[path] = first if early else second

    add("", model)
    return places
