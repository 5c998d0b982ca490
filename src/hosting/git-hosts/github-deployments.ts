// Shows a revision at GitHub: a check run of its commit, and a Deployment with its states.
import * as z from 'zod'
import { fail } from '../../kernel/http/errors.ts'
import { arrayOf } from '../../protocol/wire.ts'
import type { Githost, HostedRevision, RevisionPhase } from './githost.ts'
import type { RepositoryApi } from './repository-api.ts'
import { HostRefusal, type HostResponse, parseResponse } from './request.ts'
import type { RestClient } from './rest-client.ts'

const MAX_DESCRIPTION_LENGTH = 140

const Created = z.object({ id: z.int().min(0) })
const CheckRuns = z.object({
  check_runs: arrayOf(z.object({ ...Created.shape, external_id: z.string().nullish() }), 100),
})
const Deployments = arrayOf(z.object({ ...Created.shape, payload: z.unknown() }), 100)

const CHECKS: Record<RevisionPhase, { status: string; conclusion?: string }> = {
  queued: { status: 'queued' },
  in_progress: { status: 'in_progress' },
  success: { status: 'completed', conclusion: 'success' },
  failure: { status: 'completed', conclusion: 'failure' },
  error: { status: 'completed', conclusion: 'failure' },
  skipped: { status: 'completed', conclusion: 'skipped' },
}
const deploymentState = (phase: RevisionPhase): string => (phase === 'skipped' ? 'inactive' : phase)

type Client = Pick<RestClient, 'get' | 'write'> & Pick<RepositoryApi, 'repositoryApi'>

/** Both are found by the revision's id, so that a report that is repeated makes no second one. */
export function githubDeployments({ repositoryApi, get, write }: Client): NonNullable<Githost['showRevision']> {
  async function showCheck(url: string, sha: string, { id, context, phase, title, summary, log_url }: HostedRevision) {
    const query = new URLSearchParams({ check_name: context, filter: 'all', per_page: '100' })
    const listed = accepted(await get(`${url}/commits/${encodeURIComponent(sha)}/check-runs?${query}`))
    const { check_runs } = parseResponse(CheckRuns, url, listed.body)
    const existing = check_runs.find(({ external_id }) => external_id === id)
    const members = {
      ...CHECKS[phase],
      ...(log_url !== null && { details_url: log_url }),
      output: { title, summary },
    }
    accepted(
      existing
        ? await write('PATCH', `${url}/check-runs/${existing.id}`, members)
        : await write('POST', `${url}/check-runs`, { name: context, head_sha: sha, external_id: id, ...members }),
    )
  }

  async function findDeployment(url: string, sha: string, { id, environment }: HostedRevision) {
    const query = new URLSearchParams({ sha, environment, per_page: '100' })
    const listed = accepted(await get(`${url}/deployments?${query}`))
    const all = parseResponse(Deployments, url, listed.body)
    return all.find(({ payload }) => Object(payload).slipway_revision === id)
  }

  async function createDeployment(url: string, sha: string, { id, environment }: HostedRevision) {
    const created = await write('POST', `${url}/deployments`, {
      ref: sha,
      environment,
      payload: { slipway_revision: id },
      description: 'Deployed by Slipway',
      // The commit is deployed already, whatever its checks say, and nothing is merged.
      auto_merge: false,
      required_contexts: [],
      // GitHub ends the Deployment before only where it is not one of production.
      production_environment: false,
    })
    return parseResponse(Created, url, accepted(created).body)
  }

  async function showDeployment(url: string, sha: string, revision: HostedRevision) {
    const { phase, title, log_url } = revision
    const { id } = (await findDeployment(url, sha, revision)) ?? (await createDeployment(url, sha, revision))
    const state = {
      state: deploymentState(phase),
      description: title.slice(0, MAX_DESCRIPTION_LENGTH),
      auto_inactive: true,
      ...(log_url !== null && { log_url }),
      ...(revision.url !== null && { environment_url: revision.url }),
    }
    accepted(await write('POST', `${url}/deployments/${id}/statuses`, state))
  }

  return async (repo_url, sha, revision) => {
    const url = repositoryApi(repo_url)
    // An App may be granted one of the two. A refusal hides no failure that is worth another attempt.
    const results = await Promise.allSettled([showCheck(url, sha, revision), showDeployment(url, sha, revision)])
    const failures = results.flatMap(result => (result.status === 'rejected' ? [result.reason] : []))
    if (failures.length > 0) throw failures.find(error => error.code !== 'githost_refused') ?? failures[0]
  }
}

/** GitHub answers 404, too, to an App that may not. That the repository is there, its status has shown. */
function accepted(response: HostResponse): HostResponse {
  const { status, body } = response
  if (status === 200 || status === 201) return response
  const { message } = Object(body)
  const words = typeof message === 'string' ? message : `GitHub answered ${status}`
  throw fail('githost_refused', { about: words, cause: new HostRefusal(status, words) })
}
