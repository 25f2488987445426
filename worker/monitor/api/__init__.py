"""What the API takes and gives: models, operations, and the OpenAPI document made of them."""
