// A deployment as tests, benches and trials make one, where the document's example says too much.

export const repository = {
  integration_id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11',
  repo_url: 'https://git.example.com/acme/app',
  build_on_push: false,
}

export const deploymentBody = (over: Record<string, unknown> = {}) => ({
  name: `app-${crypto.randomUUID()}`,
  source: 'githost',
  source_config: repository,
  source_revision_config: { repo_ref: 'main', platform_config_path: 'platform.json' },
  secrets: [{ name: 'TOKEN', value: 'hush' }],
  ...over,
})
