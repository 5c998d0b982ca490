// The clients of git hosts: commits, statuses, comments and credentials, the same for GitHub and Gitea.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openWebhookSecret, sealCredentials } from '../../../src/hosting/git-hosts/credentials.ts'
import { type Githost, type Integration, parseRepositoryUrl } from '../../../src/hosting/git-hosts/githost.ts'
import { createGithost } from '../../../src/hosting/git-hosts/githost-factory.ts'
import { Failure } from '../../../src/kernel/http/errors.ts'
import { foreignServers, getServices } from '../../support/app.ts'
import {
  combineHosts,
  GITHUB_APP,
  makeGitea,
  makeGithub,
  makeRepositories,
  TOKEN_PREFIX,
} from '../../support/fake-git-hosts.ts'
import { PKCS1 } from '../../support/github-app-key.ts'

const ORIGIN = 'http://slipway.test'
const SHA = 'a'.repeat(40)
const originalFetch = foreignServers.fetch
let cloud = makeGithub()
let enterprise = makeGithub('https://ghe.example.com')
let forge = makeGitea('https://gitea.example.com/git')
let hosts = combineHosts(cloud, enterprise, forge)
beforeEach(() => {
  ;[cloud, enterprise, forge] = [
    makeGithub(),
    makeGithub('https://ghe.example.com'),
    makeGitea('https://gitea.example.com/git'),
  ]
  for (const host of [cloud, enterprise])
    host.installations.set(1, { account: { id: 1, login: 'acme' }, repositories: makeRepositories(2) })
  forge.accounts.set('hush-token', { id: 1, login: 'bot', repositories: makeRepositories(2) })
  for (const host of [cloud, enterprise, forge]) {
    host.commits.set('main', { sha: SHA, message: 'First', author: 'ada' })
    host.commits.set('feature/a#b', { sha: 'b'.repeat(40), message: 'Other', author: 'bob' })
    host.commits.set('v1', { sha: 'c'.repeat(40), message: 'Tagged', author: 'ada' })
    host.commits.set(SHA, { sha: SHA, message: 'First', author: 'ada' })
  }
  hosts = combineHosts(cloud, enterprise, forge)
  foreignServers.fetch = hosts
})
afterEach(() => {
  foreignServers.fetch = originalFetch
})

const baseRow = {
  id: crypto.randomUUID(),
  organization_id: crypto.randomUUID(),
  tenant_id: crypto.randomUUID(),
  app_id: null,
  problem: null,
  installation_id: '1',
  account_id: '1',
  name: 'acme',
  state: 'active' as const,
  credentials: null,
  ssh: null,
  token: null,
  token_expires_at: null,
  created_by: null,
  version: 1,
  created_at: '',
  updated_at: '',
} as const
async function makeRow(kind: 'cloud' | 'enterprise' | 'forge'): Promise<Integration> {
  const { base } = { cloud, enterprise, forge }[kind]
  const row: Integration = { ...baseRow, host: kind === 'forge' ? 'gitea' : 'github', base_url: base }
  if (kind === 'cloud') return row
  const credentials = kind === 'forge' ? { token: 'hush-token' } : { private_key: PKCS1 }
  if (kind === 'enterprise') row.app_id = GITHUB_APP.id
  row.credentials = await sealCredentials(getServices().sealer, row, { ...credentials, webhook_secret: 'hush-webhook' })
  return row
}
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => null,
    error => (error instanceof Failure ? error.code : String(error)),
  )

describe.each([
  ['github.com', 'cloud'],
  ['GitHub Enterprise Server', 'enterprise'],
  ['Gitea', 'forge'],
] as const)('the client of %s', (_, kind) => {
  let host: Githost
  let repo: string
  let site: { writes: { method: string; path: string; body: Record<string, unknown> }[]; comments: Set<number> }
  beforeEach(async () => {
    const row = await makeRow(kind)
    host = createGithost(getServices(), ORIGIN, row)
    repo = `${row.base_url}/acme/repo-00001`
    site = { cloud, enterprise, forge }[kind]
  })

  it('resolves a branch, a tag and a commit id, and returns null for missing refs and repositories', async () => {
    for (const ref of ['main', 'refs/heads/main', SHA])
      expect(await host.commit(repo, ref)).toEqual({ sha: SHA, author: 'ada', message: 'First' })
    expect((await host.commit(`${repo}.git`, 'refs/heads/feature/a#b'))?.sha).toBe('b'.repeat(40))
    expect((await host.commit(repo, 'refs/tags/v1'))?.message).toBe('Tagged')
    expect(await host.commit(repo, 'gone')).toBeNull()
    expect(await host.commit(repo.replace('00001', '00009'), 'main')).toBeNull()
  })

  it('sets a commit status, and edits one comment, which it creates again if it was deleted', async () => {
    await host.setStatus(repo, SHA, {
      state: 'pending',
      url: 'https://x.example.com',
      description: 'd'.repeat(200),
      context: 'slipway',
    })
    expect(site.writes.at(-1)).toEqual({
      method: 'POST',
      path: `/statuses/${SHA}`,
      body: { state: 'pending', target_url: 'https://x.example.com', description: 'd'.repeat(140), context: 'slipway' },
    })
    const id = await host.comment(repo, 7, 'first', null)
    expect(await host.comment(repo, 7, 'second', id)).toBe(id)
    expect(site.writes.at(-1)).toEqual({ method: 'PATCH', path: `/issues/comments/${id}`, body: { body: 'second' } })
    expect(site.comments.size).toBe(1)
    site.comments.clear()
    await host.comment(repo, 7, 'third', id)
    expect(site.writes.at(-1)).toMatchObject({ method: 'POST', path: '/issues/7/comments' })
  })

  it('rejects missing repositories and URLs of other hosts, and never sends a request to another host', async () => {
    const status = { state: 'success', url: null, description: '', context: 'slipway' } as const
    const missing = repo.replace('00001', '00009')
    for (const wrong of [
      missing,
      'https://evil.example.com/acme/repo-00001',
      `${repo}/../../x`,
      repo.replace('acme', '..'),
      'git@github.com:acme/x',
    ]) {
      expect(await codeOf(host.setStatus(wrong, SHA, status))).toBe('repository_not_found')
      expect(await codeOf(host.comment(wrong, 1, 'x', null))).toBe('repository_not_found')
    }
    expect(hosts.requests.filter(({ url }) => url.includes('evil'))).toEqual([])
    expect(await codeOf(host.credential('https://evil.example.com/acme/x'))).toBe('repository_not_found')
  })

  it('clones with a read-only token of the repository from GitHub, and with the account’s from Gitea', async () => {
    const { username, password, expires_at } = (await host.credential(repo)) as {
      username: string
      password: string
      expires_at: string
    }
    if (kind === 'forge') expect([username, password, expires_at]).toEqual(['oauth2', 'hush-token', null])
    else {
      expect([username, password.startsWith(TOKEN_PREFIX)]).toEqual(['x-access-token', true])
      expect(Date.parse(expires_at!)).toBeGreaterThan(Date.now() + 3_000_000)
      const tokenRequest = hosts.requests.findLast(({ url }) => url.endsWith('/access_tokens'))!
      expect(JSON.parse(tokenRequest.body)).toEqual({ repositories: ['repo-00001'], permissions: { contents: 'read' } })
      expect(await codeOf(host.credential(repo.replace('00001', '00009')))).toBe('repository_not_found')
    }
  })

  it('mints one token for several requests at the same time', async () => {
    await Promise.all(Array.from({ length: 5 }, () => host.commit(repo, 'main')))
    expect(hosts.requests.filter(({ url }) => url.endsWith('/access_tokens'))).toHaveLength(kind === 'forge' ? 0 : 1)
    expect(host.mintedToken()?.token.startsWith(TOKEN_PREFIX) ?? false).toBe(kind !== 'forge')
  })
})

it('a renamed repository can be read and written under its old URL', async () => {
  cloud.renamed.set('acme/before', 1000)
  const host = createGithost(getServices(), ORIGIN, await makeRow('cloud'))
  const oldUrl = 'https://github.com/acme/before'
  expect((await host.commit(oldUrl, 'main'))?.sha).toBe(SHA)
  await host.setStatus(oldUrl, SHA, { state: 'success', url: null, description: '', context: 'slipway' })
  expect(cloud.writes.at(-1)).toMatchObject({ method: 'POST', path: `/statuses/${SHA}` })
  expect(await host.comment(oldUrl, 1, 'x', null)).toMatch(/^\d+$/)
})

it('credentials can be opened only for their account in their workspace', async () => {
  const row = await makeRow('forge')
  const { sealer } = getServices()
  expect(await openWebhookSecret(sealer, row)).toBe('hush-webhook')
  for (const change of [
    { tenant_id: crypto.randomUUID() },
    { account_id: '2' },
    { base_url: 'https://git.example.com' },
  ])
    await expect(openWebhookSecret(sealer, { ...row, ...change })).rejects.toThrow()
})

it.each([
  ['https://github.com', 'https://github.com/acme/app', 'acme/app'],
  ['https://github.com', 'https://GitHub.com/acme/app.git', 'acme/app'],
  ['https://gitea.example.com/git', 'https://gitea.example.com/git/acme/app/', 'acme/app'],
  ['https://github.com', 'https://github.com/acme', null],
  ['https://github.com', 'https://github.com.evil.com/acme/app', null],
  ['https://github.com', 'https://github.com/acme/app/tree/main', null],
  ['https://github.com', 'https://github.com/../app', null],
  ['https://github.com', 'https://github.com/acme/..', null],
  ['https://github.com', 'https://github.com/acme/.git', null],
])('on the host %s, the URL %s names the repository %s', (base, url, expected) => {
  const repository = parseRepositoryUrl({ host: 'gitea', base_url: base }, url)
  expect(repository && `${repository.owner}/${repository.name}`).toBe(expected)
})
