// The pure rules of the screens for what is connected: steps of a discovery, states, commands of agents, event types.
import { describe, expect, it } from 'vitest'
import { agentCommand, stateOfListener } from '../../src/dashboard/screens/listeners/listener-state.ts'
import { listSteps } from '../../src/dashboard/screens/providers/discovery-steps.ts'
import { RESOURCES, stateOfWebhook } from '../../src/dashboard/screens/webhooks/webhook-state.ts'
import { EVENT_OPERATIONS } from '../../src/people/audit/operation-names.ts'

const fetched = (stage: string, status: number | null, outcome: string | null = null) => ({
  stage,
  method: 'GET',
  url: 'https://mcp.example.com',
  ms: 1,
  status,
  outcome,
})
const PROBE = fetched('MCP server', 401)
const RESOURCE = 'protected resource metadata'
const SERVER = 'authorization server metadata'

describe('the steps of a discovery', () => {
  it('are its stages, and an address without a document does not make one fail', () => {
    const steps = listSteps([PROBE, fetched(RESOURCE, 404), fetched(RESOURCE, 200), fetched(SERVER, 200)], false)
    expect(steps.map(({ state, requests }) => [state.word, requests.map(({ state }) => state.word)])).toEqual([
      ['Done', ['Done']],
      ['Done', ['Tried', 'Done']],
      ['Done', ['Done']],
    ])
  })

  it.each([
    ['without any metadata', [PROBE, fetched(RESOURCE, 404), fetched(SERVER, 404)], ['Done', 'Tried', 'Failed']],
    ['at a server that is down', [fetched('MCP server', null, 'upstream_error')], ['Failed']],
  ])('end with the one that failed, %s', (_, trace, states) => {
    expect(listSteps(trace, true).map(({ state }) => state.word)).toEqual(states)
  })
})

describe('a listener', () => {
  const now = Date.parse('2026-11-23T12:00:00Z')
  it.each([
    [null, 'Waiting for an agent'],
    ['2026-11-23T11:58:01Z', 'Connected'],
    ['2026-11-23T11:58:00Z', 'Silent'],
  ])('last heard at %s is “%s” at noon', (last_seen_at, word) => {
    expect(stateOfListener({ last_seen_at }, now).word).toBe(word)
  })

  it.each([
    ['process', '@ npm run agent'],
    ['container', '@ npm run agent -- --engine container'],
    ['kubernetes', '@ K8S_NAMESPACES=a,b npm run agent -- --engine kubernetes'],
  ] as const)('has a command for an agent of the engine %s', (engine, command) => {
    const settings = { origin: 'https://s.example', namespaces: ['a', 'b'], key: 'slw_1' }
    const access = 'SLIPWAY_URL=https://s.example SLIPWAY_LISTENER_KEY=slw_1'
    expect(agentCommand({ engine, ...settings })).toBe(command.replace('@', access))
  })
})

describe('a webhook', () => {
  const health = { status: 'ok', failing_since: null, disabled_at: null, disabled_reason: null } as const
  it.each([
    [true, 'ok', 'Healthy'],
    [true, 'failing', 'Failing'],
    [false, 'ok', 'Paused'],
    [true, 'disabled', 'Disabled'],
    [false, 'disabled', 'Disabled'],
  ] as const)('that is enabled: %s, with the health %s, is “%s”', (enabled, status, word) => {
    expect(stateOfWebhook({ enabled, health: { ...health, status } }).word).toBe(word)
  })

  /** Their events are in the journal of the organization, which no webhook reads. */
  const OF_ORGANIZATION = [
    'organization',
    'member',
    'role',
    'access_policy',
    'session',
    'device',
    'identity',
    'sign_in_link',
    'model_proxy',
  ]
  it('can be given every type of event of a workspace by its resource', () => {
    const resources = new Set(Object.keys(EVENT_OPERATIONS).map(type => type.split('.')[0]!))
    for (const name of OF_ORGANIZATION) resources.delete(name)
    expect(RESOURCES.map(([name]) => name).toSorted()).toEqual([...resources].toSorted())
  })
})
