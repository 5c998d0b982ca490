// Small bodies of deployments, for tests and trials that do not need the whole example of the document.

export const makeImageConfig = (tag: string) => ({
  source_revision_config: { image_uri: `registry.example.com/app:${tag}` },
})

export const makeImageBody = (over: Record<string, unknown> = {}) => ({
  name: `app-${crypto.randomUUID()}`,
  source: 'internal_container',
  source_config: {},
  ...makeImageConfig('first'),
  secrets: [{ name: 'TOKEN', value: 'hush' }],
  ...over,
})

export const minimalBody = { source: 'internal_container', source_config: {}, source_revision_config: {}, secrets: [] }
export const imageConfig = { image_uri: `registry.example.com/app@sha256:${'0'.repeat(64)}` }
