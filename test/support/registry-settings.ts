// Settings of a registry with an invalid key, for tests that do not sign tokens.
export const toPem = (label: string, body: string) => `-----BEGIN ${label}-----\n${body}\n-----END ${label}-----\n`

export const REGISTRY_SETTINGS = {
  REGISTRY_URL: 'registry.example.com',
  REGISTRY_SIGNING_KEY: toPem('PRIVATE KEY', 'AAAA') + toPem('CERTIFICATE', 'AAAA'),
}
