import { describe, expect, it } from 'vitest'
import { compareRevisions, type RevisionContent } from '../../../src/hosting/deployments/plan.ts'
import { SourceConfig, SourceRevisionConfig } from '../../../src/protocol/parts.schema.ts'
import { ResourceSpec } from '../../../src/protocol/resources.schema.ts'
import { newTenant, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import {
  advanceRevisionTo,
  getPlatformAgent,
  imageConfig,
  minimalBody,
  newDeployment,
} from '../../support/deployments.ts'
import { put } from '../../support/patch-members.ts'

const makeContent = (over: object = {}): RevisionContent => ({
  source_config: {},
  source_revision_config: {},
  secret_references: null,
  secrets: [],
  ...over,
})
const memberPaths = (name: string, { shape }: { shape: object }) => Object.keys(shape).map(one => `${name}.${one}`)

describe('the comparison of two configurations', () => {
  it.each([
    'source',
    'secret_references',
    ...memberPaths('source_config', SourceConfig.omit({ resource_spec: true })),
    ...memberPaths('source_config.resource_spec', ResourceSpec),
    ...memberPaths('source_revision_config', SourceRevisionConfig),
  ])('shows %s where it differs, in both directions', path => {
    const withValue = (value: unknown) => makeContent(put(path, value))
    const [one, other] = [
      { a: 1, b: [2] },
      { b: [3], a: 1 },
    ]
    expect(compareRevisions(withValue(one), withValue(other))).toEqual([{ path, before: one, after: other }])
    expect(compareRevisions(withValue(other), withValue(one))).toEqual([{ path, before: other, after: one }])
    expect(compareRevisions(makeContent(), withValue(one))).toEqual([{ path, before: null, after: one }])
    expect(compareRevisions(withValue({ b: [2], a: 1 }), withValue(one))).toEqual([])
  })

  it('shows secrets by name and version, in the order of their names', () => {
    const withSecrets = (secrets: Record<string, number>) =>
      makeContent({ secrets: Object.entries(secrets).map(([name, version]) => ({ name, version })) })
    const [before, after] = [
      withSecrets({ SAME: 1, OLD: 1, B: 1 }),
      withSecrets({ B: 3, SAME: 1, A: 2, constructor: 3 }),
    ]
    expect(compareRevisions(before, after)).toEqual([
      { path: 'secrets.A', before: null, after: 2 },
      { path: 'secrets.B', before: 1, after: 3 },
      { path: 'secrets.OLD', before: 1, after: null },
      { path: 'secrets.constructor', before: null, after: 3 },
    ])
  })
})

const sendLogs = async (deployment_id: string, revision_id: string, kind: 'build' | 'deploy', levels: string[]) => {
  const agent = await getPlatformAgent()
  const lines = levels.map(level => ({ timestamp: new Date().toISOString(), level, message: 'a line' }))
  const batch = { deployment_id, revision_id, kind, stream: unusedId(), from: 0, lines }
  const { status } = await agent.post('/v1/sync/logs', { agent_id: agent.agent_id, fence: agent.fence, ...batch })
  expect(status).toBe(200)
}

describe('two revisions of a deployment', () => {
  const shaOf = (digit: string) => digit.repeat(40)
  const commitOf = (digit: string) => ({ sha: shaOf(digit), message: null, author: null })

  /** Each is built for five minutes longer than the one before. */
  async function createTwoRevisions(tenant: Tenant) {
    const { id, latest_revision_id: first, source_config } = await newDeployment(tenant)
    const path = `/v2/deployments/${id}`
    const build = async (revision: string, digit: string, ms: number) => {
      await advanceRevisionTo(tenant, id, revision, 'BUILDING', { commit: commitOf(digit) })
      await withClockAhead(ms, () => advanceRevisionTo(tenant, id, revision))
    }
    await build(first, 'a', 300_000)
    await sendLogs(id, first, 'deploy', ['INFO', 'ERROR', 'WARNING'])
    const secrets = [{ name: 'OTHER', value: 'new' }]
    const patched = await tenant.patch(path, { source_config: { install_command: 'npm ci' }, secrets })
    const second = patched.body.latest_revision_id as string
    await build(second, 'b', 600_000)
    await sendLogs(id, second, 'build', ['ERROR', 'CRITICAL'])
    await sendLogs(id, second, 'deploy', ['ERROR', 'DEBUG'])
    return { id, first, second, repo_url: source_config.repo_url as string }
  }
  const compare = (tenant: Tenant, id: string, from: string, to: string) =>
    tenant.get(`/v2/deployments/${id}/revisions/${from}/compare/${to}`)

  it('are compared by configuration, commits, build time and errors, the same in both directions', async () => {
    const tenant = await newTenant()
    const { id, first, second, repo_url } = await createTwoRevisions(tenant)
    const { body } = await compare(tenant, id, first, second)
    expect(body.changes).toEqual([
      { path: 'source_config.install_command', before: null, after: 'npm ci' },
      { path: 'source_revision_config.repo_commit_sha', before: shaOf('a'), after: shaOf('b') },
      { path: 'secrets.OTHER', before: null, after: 2 },
      { path: 'secrets.TOKEN', before: 1, after: null },
    ])
    expect(body.commits).toEqual({
      from: shaOf('a'),
      to: shaOf('b'),
      repo_url,
      compare_url: `${repo_url}/compare/${shaOf('a')}...${shaOf('b')}`,
    })
    expect(body.before).toMatchObject({ id: first, number: 1, status: 'DEPLOYED', commit: shaOf('a'), error_lines: 1 })
    expect(body.after).toMatchObject({ id: second, number: 2, status: 'DEPLOYED', commit: shaOf('b'), error_lines: 3 })
    // The test itself takes a few seconds.
    const minutesOf = (side: 'before' | 'after') => Math.floor(body[side].build_seconds / 60)
    expect([minutesOf('before'), minutesOf('after')]).toEqual([5, 10])

    const { body: reversed } = await compare(tenant, id, second, first)
    expect(reversed).toMatchObject({ before: body.after, after: body.before })
    type Change = { path: string; before: unknown; after: unknown }
    const mirrored = body.changes.map((one: Change) => ({ path: one.path, before: one.after, after: one.before }))
    expect(reversed.changes).toEqual(mirrored)
    expect(reversed.commits).toMatchObject({ from: shaOf('b'), to: shaOf('a') })

    const { body: same } = await compare(tenant, id, second, second)
    expect(same).toMatchObject({ before: body.after, after: body.after, changes: [], commits: { compare_url: null } })
  })

  it('that run an image are compared by its digest, without commits and builds', async () => {
    const tenant = await newTenant()
    const created = await newDeployment(tenant, { ...minimalBody, source_revision_config: imageConfig })
    const { id, latest_revision_id: first } = created
    const tagged = { image_uri: 'registry.example.com/app:2' }
    const patched = await tenant.patch(`/v2/deployments/${id}`, { source_revision_config: tagged })
    const { body } = await compare(tenant, id, first, patched.body.latest_revision_id)
    const { image_uri } = imageConfig
    const path = 'source_revision_config.image_uri'
    expect(body.changes).toEqual([{ path, before: image_uri, after: tagged.image_uri }])
    expect(body.before).toMatchObject({ image_digest: image_uri.split('@')[1], commit: null, build_seconds: null })
    expect(body.after).toMatchObject({ image_digest: null, status: 'QUEUED', error_lines: 0 })
    expect(body.commits).toBeNull()
  })

  it('must both exist in the deployment and the workspace: the answer names the one that does not', async () => {
    const [tenant, foreign] = [await newTenant(), await newTenant()]
    const { id, latest_revision_id: own } = await newDeployment(tenant)
    const { latest_revision_id: ofOther } = await newDeployment(tenant)
    const unknown = unusedId()
    for (const [from, to, named] of [
      [own, unknown, [unknown]],
      [unknown, own, [unknown]],
      [own, ofOther, [ofOther]],
      [unknown, ofOther, [unknown, ofOther]],
    ] as const) {
      const { status, body } = await compare(tenant, id, from, to)
      expect([status, body.code]).toEqual([404, 'revision_not_found'])
      for (const revision of [own, unknown, ofOther])
        expect(body.detail.includes(revision)).toBe((named as readonly string[]).includes(revision))
    }
    expect((await compare(foreign, id, own, own)).body.code).toBe('revision_not_found')
  })
})
