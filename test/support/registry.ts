// A registry as the settings name one, with a key that signs nothing: enough for whatever only offers push tokens.
const pem = (label: string) => `-----BEGIN ${label}-----\nAAAA\n-----END ${label}-----\n`

export const REGISTRY = {
  REGISTRY_URL: 'registry.example.com',
  REGISTRY_SIGNING_KEY: pem('PRIVATE KEY') + pem('CERTIFICATE'),
}
