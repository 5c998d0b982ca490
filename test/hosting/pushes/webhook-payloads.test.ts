import examples from '@octokit/webhooks-examples'
import { type SQL, sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { repositoryKey } from '../../../src/hosting/deployments/tables.ts'
import { type HostEvent, parseDelivery, refSpellings } from '../../../src/hosting/pushes/webhook-payloads.ts'
import { type Row, runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp } from '../../support/app.ts'

type Example = { name: string; examples: Record<string, unknown>[] }
const allExamples = ((examples as unknown as { default?: Example[] }).default ?? examples) as unknown as Example[]
const examplesOf = (name: string) => allExamples.find(example => example.name === name)!.examples
// biome-ignore lint/suspicious/noExplicitAny: the host's payloads, as published
type Payload = any

describe('the example payloads that GitHub publishes', () => {
  it.each(examplesOf('push').map((payload, i) => [i, payload] as const))('push %i is parsed', (_, payload: Payload) => {
    const event = parseDelivery('push', payload)!
    const isDeletion = /^0+$/.test(payload.after)
    expect(event).toEqual({
      kind: 'push',
      repo_urls: [payload.repository.html_url, payload.repository.clone_url],
      repo_id: String(payload.repository.id),
      ref: payload.ref,
      before: /^0+$/.test(payload.before) ? null : payload.before,
      after: isDeletion ? null : payload.after,
      created: payload.created,
      deleted: payload.deleted,
      forced: payload.forced,
      commit: payload.head_commit && {
        sha: payload.head_commit.id,
        message: payload.head_commit.message,
        author: payload.head_commit.author.name,
      },
      sender: payload.sender.login,
      installation: payload.installation ? String(payload.installation.id) : null,
    })
    expect(payload.deleted).toBe(isDeletion)
  })

  it.each(examplesOf('pull_request').map((payload, i) => [`${payload.action} ${i}`, payload] as const))(
    'pull_request %s is parsed',
    (_, payload: Payload) => {
      const event = parseDelivery('pull_request', payload)
      if (!['opened', 'reopened', 'synchronize', 'closed'].includes(payload.action)) return expect(event).toBeNull()
      const { head, base } = payload.pull_request
      expect(event).toMatchObject({
        kind: 'pull_request',
        action: payload.action,
        number: payload.number,
        branch: head.ref,
        head_sha: head.sha,
        fork: head.repo?.full_name !== base.repo.full_name,
        sender: payload.sender.login,
      })
    },
  )

  it.each([...examplesOf('create'), ...examplesOf('delete')].map((payload, i) => [i, payload] as const))(
    'create or delete %i is parsed as a moved ref',
    (_, payload: Payload) => {
      const isDeletion = !('master_branch' in payload)
      const event = parseDelivery(isDeletion ? 'delete' : 'create', payload)
      if (payload.ref_type === 'repository') return expect(event).toBeNull()
      const ref = `refs/${payload.ref_type === 'tag' ? 'tags' : 'heads'}/${payload.ref}`
      expect(event).toMatchObject({ kind: 'push', ref, deleted: isDeletion, created: !isDeletion, after: null })
    },
  )

  it.each(
    ['installation', 'installation_repositories'].flatMap(name => examplesOf(name).map(one => [name, one] as const)),
  )('an event of %s is parsed', (name, payload: Payload) => {
    const installation = String(payload.installation.id)
    const isParsed = ['deleted', 'suspend', 'unsuspend'].includes(payload.action)
    const action = name === 'installation' ? payload.action : 'repositories'
    const expected = name === 'installation' && !isParsed ? null : expect.objectContaining({ action, installation })
    expect(parseDelivery(name, payload)).toEqual(expected)
  })

  it('all other events are ignored', () => {
    const parsed = ['push', 'pull_request', 'create', 'delete', 'installation', 'installation_repositories']
    const others = allExamples.filter(event => !parsed.includes(event.name))
    expect(others.length).toBeGreaterThan(20)
    for (const { name, examples } of others)
      for (const payload of examples) expect(parseDelivery(name, payload), name).toBeNull()
  })
})

const sha = (digit: string) => digit.repeat(40)
const repository = { id: 7, html_url: 'https://git.example.com/a/b', clone_url: 'https://git.example.com/a/b.git' }
const sender = { id: 1, login: 'ada' }

describe('payloads of Gitea', () => {
  const cases: [string, string, object, Partial<HostEvent> | null][] = [
    [
      'a push, whose head commit is in the list of commits',
      'push',
      {
        ref: 'refs/heads/main',
        before: sha('a'),
        after: sha('b'),
        commits: [{ id: sha('b'), message: 'Two\n', author: { name: 'Ada', email: 'a@example.com', username: 'ada' } }],
      },
      { kind: 'push', commit: { sha: sha('b'), message: 'Two\n', author: 'Ada' }, created: false, deleted: false },
    ],
    [
      'a deleted branch, which is an event of its own type',
      'delete',
      { ref: 'old', ref_type: 'branch' },
      { ref: 'refs/heads/old', deleted: true } as never,
    ],
    [
      'an updated pull request, whose action is called synchronized',
      'pull_request_sync',
      {
        action: 'synchronized',
        number: 3,
        pull_request: {
          updated_at: '2026-01-02T03:04:05+01:00',
          head: { ref: 'x', sha: sha('c'), repo: { id: 8 } },
          base: { repo: { id: 7 } },
        },
      },
      { kind: 'pull_request', action: 'synchronize', fork: true, at: '2026-01-02T02:04:05.000Z' },
    ],
  ]
  it.each(cases)('include %s', (_, name, payload, expected) => {
    expect(parseDelivery(name, { ...payload, repository, sender })).toMatchObject(expected!)
  })

  it('are rejected if they are malformed', () => {
    expect(() => parseDelivery('push', { ref: 'refs/heads/main' })).toThrow()
    expect(() => parseDelivery('pull_request', { action: 'opened', number: 'one', repository })).toThrow()
  })

  it('are parsed without their NUL characters and lone surrogates', () => {
    const commits = [{ id: sha('b'), message: 'a\0b\ud800', author: { name: '\0' } }]
    const event = parseDelivery('push', {
      ref: 'refs/heads/m',
      before: sha('0'),
      after: sha('b'),
      commits,
      repository,
      sender,
    })
    expect(event).toMatchObject({ created: true, before: null, commit: { message: 'ab\ufffd', author: '' } })
  })
})

describe('the key of a repository URL', () => {
  const slashes = `https://git.example.com${'/'.repeat(2020)}x`
  const keys = [
    ['https://GitHub.com/Acme/Shop.git', 'github.com/acme/shop'],
    ['https://github.com/acme/shop/', 'github.com/acme/shop'],
    ['http://git.example.com:3000/a/b.git/', 'git.example.com:3000/a/b'],
    ['https://git.example.com/a/b//.git//', 'git.example.com/a/b'],
    ['https://git.example.com/a/b.git.git', 'git.example.com/a/b.git'],
    ['https://git.example.com/a/b.git/.git', 'git.example.com/a/b.git'],
    ['https://git.example.com/http://a', 'git.example.com/http://a'],
    ['https://git.example.com/.git', 'git.example.com'],
    [slashes, slashes.slice('https://'.length)],
    [`https://a/b${'/'.repeat(2000)}`, 'a/b'],
    [`https://a/b${'/.git'.repeat(400)}`, `a/b${'/.git'.repeat(399)}`],
  ] as const
  const selectKeys = async (key: SQL) => {
    const urls = JSON.stringify(keys.map(([repo_url]) => ({ source_config: { repo_url } })))
    const query = sql<Row>`select ${key} from json_to_recordset(${urls}::json) as t(source_config json)`
    const [rows] = (await runAsSystem(getApp().database, query)) as [Row[]]
    return rows.map(([found]) => found)
  }
  const expected = keys.map(([, key]) => key)

  it('is one for all its spellings', async () => {
    expect(await selectKeys(repositoryKey(sql`source_config ->> 'repo_url'`))).toEqual(expected)
  })

  it('is computed in the same way by the generated column of deployments', async () => {
    const column = sql<Row>`select pg_get_expr(adbin, adrelid) from pg_attrdef
      where adrelid = 'deployments'::regclass and pg_get_expr(adbin, adrelid) like '%repo_url%'`
    const [[[expression]]] = (await runAsSystem(getApp().database, column)) as [[[string]]]
    expect(await selectKeys(sql.raw(expression))).toEqual(expected)
  })
})

describe('a payload', () => {
  const push = { ref: 'refs/heads/main', before: sha('a'), after: sha('b'), repository, sender }
  const pull_request = {
    updated_at: '2026-01-02T03:04:05Z',
    head: { ref: 'x', sha: sha('c'), repo: { id: 8 } },
    base: { repo: { id: 7 } },
  }
  const pull = { action: 'opened', number: 1, pull_request, repository, sender }
  const commit = { id: sha('b'), message: 'One' }
  it.each<[string, string, object]>([
    ['ref', 'push', { ...push, ref: 'a'.repeat(256) }],
    ['sha', 'push', { ...push, after: 'a'.repeat(1_000_000) }],
    ['URL', 'push', { ...push, repository: { ...repository, html_url: `https://a/${'/'.repeat(16_384)}` } }],
    ['list of commits', 'push', { ...push, commits: Array(2049).fill(commit) }],
    ['kind of ref', 'create', { ...push, ref_type: 'b'.repeat(256) }],
    [
      'branch',
      'pull_request',
      { ...pull, pull_request: { ...pull_request, head: { ref: 'a'.repeat(256), sha: sha('c') } } },
    ],
    ['time', 'pull_request', { ...pull, pull_request: { ...pull_request, updated_at: '2'.repeat(1_000_000) } }],
    ['action', 'pull_request', { ...pull, action: 'o'.repeat(256) }],
    ['number', 'pull_request', { ...pull, number: 2 ** 31 }],
  ])('with a %s over its limit is rejected, before patterns are matched', (_, name, payload) =>
    expect(() => parseDelivery(name, payload)).toThrow(),
  )

  it('with a long name or message is parsed with these cut', () => {
    const long = 'a'.repeat(1_000_000)
    const event = parseDelivery('push', { ...push, commits: [{ ...commit, message: long }], sender: { login: long } })
    expect(event).toMatchObject({ sender: long.slice(0, 255), commit: { message: long.slice(0, 2000) } })
  })

  it.each(['constructor', '__proto__'])('with the action or kind of ref %s is ignored', name => {
    expect(parseDelivery('pull_request', { ...pull, action: name })).toBeNull()
    expect(parseDelivery('create', { ...push, ref_type: name })).toBeNull()
  })
})

it('a deployment can name a branch in three ways, and a tag in one', () => {
  expect(refSpellings('refs/heads/a/b')).toEqual(['refs/heads/a/b', 'a/b', 'heads/a/b'])
  expect(refSpellings('refs/tags/v1')).toEqual(['refs/tags/v1'])
})
