// A POST to the caller's URL after the end of a run.
import type { Configuration } from './configuration.ts'
import { HttpError } from './errors.ts'
import type { EndedRun } from './worker.ts'

type Policy = Configuration['webhooks']
type Environment = Record<string, string | undefined>

const LOOPBACK = /^(?:localhost|.*\.localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\]|0\.0\.0\.0)$/
const isAllowedDomain = (host: string, allowed: string[]) =>
  allowed.some(domain => (domain.startsWith('*.') ? host.endsWith(domain.slice(1)) : host === domain))

/** Refuses a URL that the policy of the file does not allow. A path is one of this server. */
export function checkWebhook(url: string, policy: Policy): void {
  const rules = policy?.url ?? {}
  const refuse = (reason: string) => new HttpError(422, `\`webhook\`: ${reason}`)
  if (rules.max_url_length && url.length > rules.max_url_length)
    throw refuse(`the URL is longer than ${rules.max_url_length} characters.`)
  if (url.startsWith('/')) return
  if (!URL.canParse(url)) throw refuse(`"${url}" is not a URL.`)
  const { protocol, hostname, port } = new URL(url)
  if (protocol !== 'https:' && (protocol !== 'http:' || rules.require_https))
    throw refuse(`the URL must begin with https://${rules.require_https ? '' : ' or http://'}.`)
  if (rules.disable_loopback && LOOPBACK.test(hostname)) throw refuse(`${hostname} is this machine itself.`)
  if (rules.allowed_domains && !isAllowedDomain(hostname, rules.allowed_domains))
    throw refuse(`${hostname} is not among the allowed domains.`)
  const actual = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
  if (rules.allowed_ports && !rules.allowed_ports.includes(actual))
    throw refuse(`port ${actual} is not among the allowed ports.`)
}

/** Headers of the file, with variables whose names begin with its prefix in place of `${{ env.NAME }}`. */
function readHeaders(policy: Policy, environment: Environment): Record<string, string> {
  const prefix = policy?.env_prefix ?? 'LG_WEBHOOK_'
  return Object.fromEntries(
    Object.entries(policy?.headers ?? {}).map(([name, value]) => [
      name,
      value.replace(/\$\{\{ ?env\.(\w+) ?\}\}/g, (_, variable: string) =>
        variable.startsWith(prefix) ? (environment[variable] ?? '') : '',
      ),
    ]),
  )
}

const ATTEMPTS = 3

export async function sendWebhook(
  { run, end, endedAt }: EndedRun,
  { policy, environment, ownUrl }: { policy: Policy; environment: Environment; ownUrl: string },
): Promise<void> {
  const target = run.kwargs.webhook as string
  const { run_id, thread_id, assistant_id, metadata, kwargs, multitask_strategy, created_at, claimed_at } = run
  const about = JSON.stringify({
    run_id,
    thread_id,
    assistant_id,
    metadata,
    kwargs,
    multitask_strategy,
    status: end.status,
    created_at,
    run_started_at: claimed_at,
    run_ended_at: endedAt,
    webhook_sent_at: new Date(),
    ...(end.error !== null && { error: end.error }),
  })
  // The values are JSON already.
  const body = `${about.slice(0, -1)},"values":${end.state?.values ?? 'null'}}`
  const key = target.startsWith('/') ? environment.GRAPHS_API_KEY : undefined
  const headers = {
    ...readHeaders(policy, environment),
    ...(key && { 'X-Api-Key': key }),
    'Content-Type': 'application/json',
  }
  for (let attempt = 1; ; attempt++) {
    try {
      const signal = AbortSignal.timeout(10_000)
      const response = await fetch(new URL(target, ownUrl), {
        method: 'POST',
        headers,
        body,
        signal,
        redirect: 'error',
      })
      await response.body?.cancel()
      if (response.status < 500) return
      throw new Error(`answered ${response.status}`)
    } catch (error) {
      console.error(`webhook failed run=${run_id} attempt=${attempt}: ${(error as Error).message}`)
      if (attempt === ATTEMPTS) return
      await new Promise(resolve => setTimeout(resolve, 1000 * 4 ** (attempt - 1)))
    }
  }
}
