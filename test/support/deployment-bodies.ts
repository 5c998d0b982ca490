// A deployment as tests and trials make one, where the document's example says too much.

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
