"""HTTP over the service: routes by family, one gate, one error body."""
