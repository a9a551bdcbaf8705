"""verl reads its platform when it is imported: choose the CPU before any test does."""

from bepo.training.verl.devices import find_device

find_device("cpu").prepare()
