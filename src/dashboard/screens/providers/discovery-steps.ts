// The requests of a discovery as steps: what was asked, what was answered, and what follows from it (pure).
import type { Reply } from '../../../client/client.ts'
import type { State } from '../../format/state.ts'

export type Provider = Reply<'GET /v2/auth/providers/{provider_id}'>
export type Fetched = NonNullable<Provider['trace']>[number]
type StepRequest = { fetched: Fetched; answer: string; conclusion: string; state: State }
export type Step = { title: string; question: string; state: State; requests: StepRequest[]; conclusion: string }

const DONE: State = { word: 'Done', tone: 'ok', shape: 'check' }
const FAILED: State = { word: 'Failed', tone: 'bad', shape: 'octagon' }
const PASSED: State = { word: 'Tried', tone: 'idle', shape: 'minus' }

type Rule = {
  title: string
  question: string
  conclude: (fetched: Fetched) => string
  summary: { done: string; none: string }
}
const isFound = ({ status }: Fetched) => status !== null && status >= 200 && status < 300

/** By the stage that the server names. */
const RULES: Record<string, Rule> = {
  'MCP server': {
    title: 'Ask the MCP server',
    question: 'Does it require authorization?',
    conclude: ({ status, method }) => {
      if (status === 401 || status === 403) return 'It requires authorization.'
      if (status === 404 || status === 405)
        return method === 'POST' ? 'It refuses POST. Trying GET.' : 'It answers at another address.'
      if (status !== null && status < 300) return 'It answers without authorization.'
      return 'It gave no usable response.'
    },
    summary: { done: '', none: '' },
  },
  'protected resource metadata': {
    title: 'Find the authorization server',
    question: 'Which authorization server does it trust?',
    conclude: fetched => (isFound(fetched) ? 'Metadata found.' : 'Not found.'),
    summary: {
      done: 'It names its authorization server.',
      none: 'It names none. Trying the origin of the server next.',
    },
  },
  'authorization server metadata': {
    title: 'Ask the authorization server',
    question: 'Which endpoints does it have?',
    conclude: fetched => (isFound(fetched) ? 'Metadata found.' : 'Not found.'),
    summary: { done: 'Endpoints found.', none: 'It publishes no metadata.' },
  },
  registration: {
    title: 'Register a client',
    question: 'Does it accept dynamic client registration?',
    conclude: fetched => (isFound(fetched) ? 'It registered the client.' : 'It refused the client.'),
    summary: { done: '', none: 'No client was registered.' },
  },
  'client configuration': {
    title: 'Check the client',
    question: 'Is the client still registered?',
    conclude: fetched => (isFound(fetched) ? 'The client is registered.' : 'It was not confirmed.'),
    summary: { done: 'It was checked.', none: 'It was not confirmed.' },
  },
  'authorization endpoint': {
    title: 'Ask the authorization endpoint',
    question: 'Does it answer?',
    conclude: ({ status }) => (status !== null && status < 500 ? 'It answers.' : 'It fails.'),
    summary: { done: 'It answers.', none: 'It does not answer.' },
  },
  'token endpoint': {
    title: 'Ask the token endpoint',
    question: 'Does it answer?',
    conclude: ({ status }) => (status !== null && status < 500 ? 'It answers.' : 'It fails.'),
    summary: { done: 'It answers.', none: 'It does not answer.' },
  },
}
const otherRule = (title: string): Rule => ({
  title,
  question: '',
  conclude: () => '',
  summary: { done: '', none: '' },
})

/** An answer that says no is as good as one that says yes: only the failure of the whole makes its last step red. */
const answersItself = (stage: string, { status }: Fetched): boolean =>
  stage === 'MCP server' || stage.endsWith('endpoint') ? status !== null && status < 500 : false

export function listSteps(trace: Fetched[], hasFailed: boolean): Step[] {
  const stages = [...new Set(trace.map(({ stage }) => stage))]
  return stages.map((stage, index): Step => {
    const rule = RULES[stage] ?? otherRule(stage)
    const requests = trace
      .filter(fetched => fetched.stage === stage)
      .map((fetched): StepRequest => {
        const isGood = isFound(fetched) || answersItself(stage, fetched)
        const answer = fetched.outcome ?? String(fetched.status ?? 'no answer')
        const state = fetched.outcome ? FAILED : isGood ? DONE : PASSED
        return { fetched, answer, conclusion: fetched.outcome ? 'It failed.' : rule.conclude(fetched), state }
      })
    const isLast = index === stages.length - 1
    const isDone = requests.some(({ state }) => state === DONE)
    const state = hasFailed && isLast ? FAILED : isDone ? DONE : PASSED
    const { done, none } = rule.summary
    return { ...rule, state, requests, conclusion: hasFailed && isLast ? '' : isDone ? done : none }
  })
}

/** The remedies of a failed discovery. The sentence of the problem says what is wrong. */
export const REMEDIES: Record<string, string> = {
  oauth_not_required: 'The server needs no authorization. Connect to it without a provider.',
  invalid_mcp_server_url: 'Enter the full URL, such as https://mcp.example.com/mcp.',
  blocked_url: 'Use the public https URL of the server. This installation does not call private networks.',
  resource_mismatch: 'The metadata is for another URL. Copy the URL from the documentation of the server.',
  issuer_mismatch: 'The metadata of the server is invalid. Ask its operator to fix it, or create the provider by hand.',
  pkce_unsupported: 'If you trust the server, create the provider by hand and disable PKCE.',
  metadata_invalid:
    'The metadata of the server is invalid. Ask its operator to fix it, or create the provider by hand.',
  unsafe_endpoint: 'The endpoints are not public https addresses. Ask the operator of the server.',
  grant_unsupported: 'The server does not let people sign in with a browser. Use a key of the server instead.',
  registration_unsupported:
    'Register a client at the server yourself, and enter its id above, under Client and scopes.',
  registration_rejected: 'Register a client at the server yourself, and enter its id above, under Client and scopes.',
  registration_invalid_response:
    'Register a client at the server yourself, and enter its id above, under Client and scopes.',
  upstream_error: 'The server reports an error. Try again later, or check its status page.',
  upstream_timeout: 'The server does not answer in time. Try again later.',
  provider_id_conflict: 'Another provider already has this id. Choose another id.',
}
/** Failures after which a person who knows the endpoints can create the provider by hand. */
export const HELPED_BY_HAND = ['issuer_mismatch', 'pkce_unsupported', 'metadata_invalid']
export const NEEDS_CLIENT = ['registration_unsupported', 'registration_rejected', 'registration_invalid_response']

const HEALTH: Record<Provider['health'], State> = {
  healthy: { word: 'Healthy', tone: 'ok', shape: 'check' },
  degraded: { word: 'Degraded', tone: 'warn', shape: 'triangle' },
  as_changed: { word: 'Another authorization server', tone: 'bad', shape: 'octagon' },
  unreachable: { word: 'Unreachable', tone: 'bad', shape: 'octagon' },
  client_expired: { word: 'Client secret expired', tone: 'bad', shape: 'octagon' },
}
/** Creating a provider by hand asks no server, and sets both times at once. */
export const isUnchecked = (provider: Pick<Provider, 'mcp_server_url' | 'checked_at' | 'created_at'>): boolean =>
  provider.mcp_server_url === null && Date.parse(provider.checked_at) - Date.parse(provider.created_at) < 1000
type Checked = Pick<Provider, 'health' | 'mcp_server_url' | 'checked_at' | 'created_at'>
export function stateOfProvider(provider: Checked): State {
  if (isUnchecked(provider)) return { word: 'Not checked yet', tone: 'idle', shape: 'ring' }
  // The check of one that was made by hand only asks whether its endpoints answer.
  if (provider.health === 'healthy' && provider.mcp_server_url === null) return { ...HEALTH.healthy, word: 'Healthy' }
  return HEALTH[provider.health]
}

export const HEALTH_REMEDIES: Partial<Record<Provider['health'], string>> = {
  degraded: 'The servers no longer match this provider. Check again after they were corrected, or edit the provider.',
  as_changed:
    'The MCP server trusts another authorization server now. People who are connected keep the previous one. ' +
    'Create a new provider from the same URL, and switch to it.',
  unreachable: 'New sign-ins fail until the server responds. Tokens that have not expired keep working.',
  client_expired: 'Enter a new client secret below. One that was registered automatically is renewed by itself.',
}

export const REGISTRATIONS: Record<Provider['registration'], string> = {
  given: 'A client that you registered',
  metadata_document: 'A client-ID metadata document of this installation',
  dynamic: 'Registered automatically',
}

/** The name of the host, without what says only that it is a server. */
export function suggestId(address: string): string {
  if (!URL.canParse(address)) return ''
  const labels = new URL(address).hostname.split('.').filter(label => !/^(mcp|api|www|\d*)$/.test(label))
  return (labels[0] ?? '').replace(/[^a-z0-9-]/g, '')
}
export const suggestName = (id: string): string => id.charAt(0).toUpperCase() + id.slice(1)
