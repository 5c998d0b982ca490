// The pure rules of the dashboard: what an event makes old, the words of states, stages and times, copied commands.
import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { toCommand, toCurl } from '../../src/dashboard/api/action-command.ts'
import { isAffected, type ReadKey } from '../../src/dashboard/api/affected.ts'
import { describeReasons } from '../../src/dashboard/format/reasons.ts'
import { stateOfDeployment } from '../../src/dashboard/format/state.ts'
import { formatAge, formatSeconds } from '../../src/dashboard/format/time.ts'
import { listOperations } from '../../src/dashboard/screens/audit/words.ts'
import { parseFilter } from '../../src/dashboard/screens/deployments/list-filter.ts'
import { listStages } from '../../src/dashboard/screens/deployments/pipeline.ts'

const event = (type: string, id: string, data = {}) => {
  const subject = { type: type.split('.')[0]!, id }
  return { number: 1, type, subject, data }
}
const key = (route: string, params?: object): ReadKey => ['workspace', route, params ? { params } : {}]
const LIST = key('GET /v2/deployments')
const SHOP = key('GET /v2/deployments/{deployment_id}/explain', { deployment_id: 'shop' })
const HOOKS = key('GET /v2/webhooks')

describe('an event', () => {
  it.each([
    ['deployment.ready', 'shop', {}, [true, true, false]],
    ['deployment.ready', 'blog', {}, [true, false, false]],
    ['revision.deployed', 'r1', { deployment_id: 'blog' }, [true, false, false]],
    ['revision.deployed', 'r1', {}, [true, true, false]],
    ['webhook.updated', 'w1', {}, [false, false, true]],
    ['something.new', 's1', {}, [true, true, true]],
  ])('%s of %s with %j makes old what shows it', (type, id, data, affected) => {
    expect([LIST, SHOP, HOOKS].map(read => isAffected(event(type, id, data), read))).toEqual(affected)
  })
})

it.each([
  [['rolled_back'], 'Rolled back'],
  [['secrets'], 'Secrets changed'],
  [['pushed', 'source_config.build_command'], 'Push, Build command changed'],
  [
    ['source_revision_config.source_tarball_path', 'secrets', 'source_config.resource_spec.cpu'],
    'Files, secrets and CPU changed',
  ],
])('the reasons %j of a revision are the sentence %j', (reasons, sentence) => {
  expect(describeReasons(reasons)).toBe(sentence)
})

describe('the state of a deployment', () => {
  const hold = { since: '', reason: 'rolled_back', revision_id: '', from_commit: null, until: 'released' } as const
  it.each([
    [{ status: 'READY', serving: 'current', hold: null }, undefined, 'Serving'],
    [{ status: 'READY', serving: 'current', hold }, undefined, 'Serving, rolled back'],
    [{ status: 'READY', serving: 'previous', hold: null }, 'BUILD_FAILED', 'Build failed'],
    [{ status: 'READY', serving: 'none', hold: null }, 'BUILDING', 'Building'],
    [{ status: 'READY', serving: 'none', hold: null }, undefined, 'Not serving'],
    [{ status: 'UNKNOWN', serving: 'current', hold: null }, undefined, 'State unknown'],
    [{ status: 'AWAITING_DELETE', serving: 'current', hold: null }, 'BUILDING', 'Deleting'],
  ] as const)('for %j with the latest revision %s is “%s”', (deployment, latest, word) => {
    expect(stateOfDeployment(deployment, latest && { status: latest }).word).toBe(word)
  })
})

describe('the filter of the list', () => {
  it('takes words for the name, and conditions for what they are', () => {
    expect(parseFilter('shop source:git status:unknown eu tag:team=web listener:fra')).toEqual({
      query: { name_contains: 'shop-eu', source: 'githost', status: ['UNKNOWN'] },
      tag: 'team=web',
      listener: 'fra',
      unknown: undefined,
    })
  })

  it('names a condition without such a value, and ignores one that is being typed', () => {
    expect(parseFilter('source:constructor').unknown).toBe('source:constructor')
    expect(parseFilter('constructor:x').query).toEqual({ name_contains: 'constructor:x' })
    expect(parseFilter('source:git status:').unknown).toBeUndefined()
    expect(parseFilter('status:broken').unknown).toBe('status:broken')
    expect(parseFilter('http://x').query).toEqual({ name_contains: 'http://x' })
  })
})

describe('the stages of a revision', () => {
  type Status = Parameters<typeof listStages>[0]['status']
  const revision = (...states: [status: Status, seconds: number | null][]) => ({
    status: states.at(-1)![0],
    states: states.map(([status, seconds]) => ({ status, since: '2026-11-23T02:00:00Z', seconds })),
  })
  const earlier = [2, 4, 9].map(seconds =>
    revision(['QUEUED', 1], ['BUILDING', seconds], ['DEPLOYING', 1], ['DEPLOYED', null]),
  )

  it('are those so far, the one that runs, and those that its earlier revisions had', () => {
    const stages = listStages(revision(['QUEUED', 1], ['AWAITING_BUILD', 2], ['BUILDING', null]), earlier)
    expect(stages.map(({ name, state, seconds, median }) => [name, state, seconds, median])).toEqual([
      ['Waiting', 'done', 3, 1],
      ['Building', 'running', 0, 4],
      ['Deploying', 'ahead', 0, 1],
    ])
  })

  it('name the one that failed at once, of which the agent reported only the end', () => {
    const stages = listStages(revision(['QUEUED', 1], ['AWAITING_BUILD', 0.7], ['BUILD_FAILED', null]), [])
    expect(stages.map(({ name, state, seconds }) => [name, state, seconds])).toEqual([
      ['Waiting', 'done', 1],
      ['Building', 'failed', 0.7],
    ])
  })

  it('end with the one that failed', () => {
    const stages = listStages(revision(['QUEUED', 1], ['BUILDING', 5], ['BUILD_FAILED', null]), [])
    expect(stages.map(({ name, state }) => [name, state])).toEqual([
      ['Waiting', 'done'],
      ['Building', 'failed'],
    ])
  })
})

it.each([
  [0, '0 s', 'now'],
  [4.04, '4.0 s', 'now'],
  [59.6, '1 m', '59 s'],
  [72, '1 m 12 s', '1 m'],
  [3_725, '1 h 2 m', '1 h'],
  [200_000, '2 d', '2 d'],
])('%d seconds are %s, and the age %s', (seconds, duration, age) => {
  expect([formatSeconds(seconds), formatAge(seconds)]).toEqual([duration, age])
})

const HOSTILE = [
  `it's $HOME \`id\` " ; id && !!`,
  'C:\\new\\table \\\\ \\0 %s %n\n\ttwo',
  '\u202Egnp.exe\u2066 \u200B\u009B201~\u2028 \0\u001B[201~',
  "''\\'' -d @/etc/passwd [1-9] {a,b} ~ =ls # end'",
]

describe.each(['sh', 'bash', 'zsh'].filter(shell => spawnSync(shell, ['-c', ':']).status === 0))(
  'a copied command in %s',
  shell => {
    /** Runs a command, and returns the arguments and the input of the program. */
    const run = (command: string) => {
      const show = `f() { for word in "$@"; do printf '%s\\036' "$word"; done; case "$*" in *--input*) cat;; esac; }; `
      const script = `SLIPWAY_API_KEY=k; ${show}${command.replace(/^curl/, 'f').replace('slipway', 'f')}`
      const { stdout, stderr } = spawnSync(shell, ['-c', script], { encoding: 'utf8' })
      expect(stderr).toBe('')
      return stdout.split('\u001e')
    }
    const headers = ['-H', 'X-Api-Key: k', '-H', 'If-Match: *']

    it.each(HOSTILE)('sends what the button sends, whatever its path and body contain: %j', text => {
      const body = { revision_id: text, release_on_newer_commit: true }
      const params = { deployment_id: text }
      const action = {
        route: 'POST /v2/deployments/{deployment_id}/rollback' as const,
        options: { params, body },
        planDigest: '7.0f',
      }
      const path = `/v2/deployments/${encodeURIComponent(text)}/rollback`
      const [method, verb, url, ...sent] = run(toCurl(action, 'https://x.test', 'w1'))
      expect([method, verb, url]).toEqual(['-X', 'POST', `https://x.test${path}`])
      expect(sent.slice(0, -2)).toEqual([
        ...headers,
        '-H',
        'X-Tenant-Id: w1',
        '-H',
        'Plan-Digest: 7.0f',
        '-H',
        'Content-Type: application/json',
        '-d',
      ])
      expect(JSON.parse(sent.at(-2)!)).toEqual(body)
      const words = run(toCommand(action))
      expect(words.slice(0, -1)).toEqual(['api', 'POST', path, '--plan-digest', '7.0f', '--input', '-'])
      expect(JSON.parse(words.at(-1)!)).toEqual(body)
    })

    it('has no mark that hides what it does', () => {
      const action = { route: 'PATCH /v1/webhooks' as never, options: { body: HOSTILE } }
      expect(toCurl(action, 'https://x.test', undefined) + toCommand(action)).not.toMatch(/[\p{Cf}\p{Zl}\p{Zp}]/u)
      expect(toCommand(action)).not.toMatch(/\p{Cc}/u)
    })
  },
)

it('lists operations of the audit log by group and name', () => {
  const names = ['create_webhook', 'some_thing', 'update_oauth_provider', 'delete_api_key', 'create_api_key']
  expect(listOperations(names).map(({ group, label }) => `${group}: ${label}`)).toEqual([
    'Keys: Create API key',
    'Keys: Delete API key',
    'OAuth providers: Update OAuth provider',
    'Webhooks: Create webhook',
    'Other: Some thing',
  ])
})
