// Stands in for the JSON Schema validator of the SDK. Nothing here validates by JSON Schema: zod does, and the API.
// `wrangler.toml` puts this file in place of the SDK's own, so that the validator is not in the bundle.

export class DefaultJsonSchemaValidator {
  getValidator(): never {
    throw new Error('no JSON Schema is validated here')
  }
}
