"""The API's requests and responses: models, operations, and the OpenAPI document made from them."""
