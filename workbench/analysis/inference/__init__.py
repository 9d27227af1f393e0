"""Static inference: types, shapes, the elements of small integer values, constant evaluation."""
