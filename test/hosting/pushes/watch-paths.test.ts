import { beforeEach, expect, it } from 'vitest'
import { concernsPaths } from '../../../src/hosting/pushes/watch-paths.ts'
import { newTenant } from '../../support/app.ts'
import { listRevisions } from '../../support/deployments.ts'
import {
  deliverAndSettle,
  newRepository,
  newRepositoryDeployment,
  newSha,
  type Repository,
  serveRepositories,
} from '../../support/pushes.ts'

beforeEach(() => serveRepositories())

/** Gitea compares two commits: `files` is what the second has changed since the first. Null: they have diverged. */
function answerCompare(repository: Repository, files: string[] | null) {
  const ranges: string[] = []
  repository.overrides.answer = request => {
    const [, range] = /\/compare\/(.*)$/.exec(new URL(request.url).pathname) ?? []
    if (range === undefined) return undefined
    ranges.push(range)
    const isBack = ranges.length % 2 === 1
    const commits = isBack && files !== null ? [] : [{ files: (files ?? []).map(filename => ({ filename })) }]
    return Response.json({ total_commits: commits.length, commits })
  }
  return ranges
}

async function setUp(watch_paths = ['apps/web/**', '!**/*.md']) {
  const tenant = await newTenant()
  const repository = await newRepository(tenant)
  repository.refs.set('main', newSha())
  const { id, name } = await newRepositoryDeployment(tenant, repository, 0, { source_config: { watch_paths } })
  const push = () => deliverAndSettle(repository.integrations[0]!, repository.push())
  const count = async () => (await listRevisions(tenant, id)).length
  return { tenant, repository, id, name, push, count }
}

it('a push that changes no watched path makes no revision, and its status says so', async () => {
  const { repository, name, push, count } = await setUp()
  const wanted = repository.refs.get('main')!
  const ranges = answerCompare(repository, ['apps/api/main.ts', 'apps/web/readme.md'])
  await push()
  const head = repository.refs.get('refs/heads/main')!
  expect(await count()).toBe(1)
  expect(ranges).toEqual([`${head}...${wanted}`, `${wanted}...${head}`])
  expect(repository.requests.find(({ path }) => path.includes('/statuses/'))?.body).toMatchObject({
    state: 'success',
    context: `slipway/${name}/deploy`,
    description: expect.stringContaining('Skipped'),
  })
  // The files are those since the deployed commit, so the next push counts with the skipped one.
  ranges.length = 0
  answerCompare(repository, ['apps/api/main.ts', 'apps/web/index.html'])
  await push()
  expect(await count()).toBe(2)
})

it('a push whose files the host does not tell deploys, and so does one without watched paths', async () => {
  const { tenant, repository, id, push, count } = await setUp()
  answerCompare(repository, null)
  await push()
  expect(await count()).toBe(2)
  expect((await tenant.patch(`/v2/deployments/${id}`, { source_config: { watch_paths: [] } })).status).toBe(200)
  answerCompare(repository, ['apps/api/main.ts'])
  await push()
  expect(await count()).toBe(3)
})

it.each([
  [['apps/web/**'], ['apps/web/a/b.ts'], true],
  [['apps/web/*'], ['apps/web/a/b.ts'], false],
  [['!docs/**'], ['docs/a.md'], false],
  [['!docs/**'], ['docs/a.md', 'main.ts'], true],
  [['apps/**', '!apps/api/**'], ['apps/api/x'], false],
  [[], ['x'], true],
  [['apps/**'], null, true],
  [['apps/**'], [], false],
])('the globs %j concern the files %j: %s', (globs, files, expected) => {
  expect(concernsPaths(globs, files)).toBe(expected)
})

it('a list of files that would take minutes to match concerns every deployment at once', () => {
  const globs = Array.from({ length: 20 }, (_, i) => `**${'a'.repeat(190)}${i}`)
  const files = Array.from({ length: 500 }, () => 'a'.repeat(4000))
  const startedAt = performance.now()
  expect(concernsPaths(globs, files)).toBe(true)
  expect(performance.now() - startedAt).toBeLessThan(5000)
})
