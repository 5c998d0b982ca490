// Changes of a deployment: each is a request that is planned, then applied (pure).
import { type ActionRequest, request } from '../../api/action-command.ts'
import type { Deployment, Revision } from '../../format/state.ts'
import { type Draft, toPatch } from './draft.ts'
import { MASK } from './variable-edits.ts'

export type PlannedRequest = ActionRequest & {
  route:
    | 'PATCH /v2/deployments/{deployment_id}'
    | 'POST /v2/deployments/{deployment_id}/rollback'
    | 'POST /v2/deployments/{deployment_id}/revisions'
    | 'POST /v2/deployments/{deployment_id}/revisions/{revision_id}/redeploy'
}
export type PlannedChange = {
  /** Changes are the same if their keys are. */
  key: string
  title: string
  /** The verb of the button that applies it. */
  verb: string
  /** Built from the deployment at the time of the plan, so a draft keeps the changes of others. */
  request: (deployment: Deployment) => PlannedRequest
  done: string
}

const planned = (made: ActionRequest) => made as PlannedRequest
const refOf = ({ id }: Pick<Deployment, 'id'>) => ({ deployment_id: id })
type RevisionRef = Pick<Revision, 'id' | 'number'>

export const applyDraft = ({ id, name }: Deployment, draft: Draft): PlannedChange => ({
  key: `draft ${id}`,
  title: `Plan for ${name}`,
  verb: 'Apply',
  request: deployment =>
    planned(
      request('PATCH /v2/deployments/{deployment_id}', { params: refOf(deployment), ...toPatch(deployment, draft) }),
    ),
  done: `${name} has changed.`,
})

export const rollBackTo = (
  rolledBack: Deployment,
  { id, number }: RevisionRef,
  releaseOnNewerCommit: boolean,
): PlannedChange => ({
  key: `rollback ${id} ${releaseOnNewerCommit}`,
  title: `Roll back ${rolledBack.name} to r${number}`,
  verb: 'Roll back',
  request: deployment =>
    planned(
      request('POST /v2/deployments/{deployment_id}/rollback', {
        params: refOf(deployment),
        body: { revision_id: id, release_on_newer_commit: releaseOnNewerCommit },
      }),
    ),
  done: `${rolledBack.name} is rolled back to r${number}.${
    hasCommits(rolledBack) ? ' Pushes do not deploy until the hold is released.' : ''
  }`,
})

export const deployAsItIs = ({ id, name }: Deployment): PlannedChange => ({
  key: `deploy ${id}`,
  title: `Deploy ${name} again`,
  verb: 'Deploy',
  request: deployment =>
    planned(request('POST /v2/deployments/{deployment_id}/revisions', { params: refOf(deployment) })),
  done: `${name}: a new revision of the current configuration is queued.`,
})

/** `archive`: the path of an upload. */
export const deployFiles = ({ name }: Deployment, archive: string): PlannedChange => ({
  key: `files ${archive}`,
  title: `Deploy changed files of ${name}`,
  verb: 'Deploy',
  request: deployment =>
    planned(
      request('PATCH /v2/deployments/{deployment_id}', {
        params: refOf(deployment),
        body: { source_revision_config: { source_tarball_path: archive } },
      }),
    ),
  done: `${name}: a revision of the changed files is queued.`,
})

export const redeploy = ({ name }: Deployment, { id, number }: RevisionRef): PlannedChange => ({
  key: `redeploy ${id}`,
  title: `Deploy r${number} of ${name} again`,
  verb: 'Deploy',
  request: deployment =>
    planned(
      request('POST /v2/deployments/{deployment_id}/revisions/{revision_id}/redeploy', {
        params: { ...refOf(deployment), revision_id: id },
      }),
    ),
  done: `${name}: r${number} is queued again, as a new revision.`,
})

/** For a command that is copied: the values of secrets stay out of clipboards and shell histories. */
export function leaveOutSecrets(made: ActionRequest): { request: ActionRequest; names: string[] } {
  const body = made.options.body as { secrets?: { name: string; value: string }[] } | undefined
  const sent = body?.secrets?.filter(({ value }) => value !== MASK) ?? []
  if (sent.length === 0) return { request: made, names: [] }
  const secrets = body!.secrets!.map(({ name, value }) => ({
    name,
    value: value === MASK ? value : `<value of ${name}>`,
  }))
  return {
    request: { ...made, options: { ...made.options, body: { ...body, secrets } } },
    names: sent.map(({ name }) => name),
  }
}

/** Only a deployment of a repository is deployed by pushes. */
export const hasCommits = ({ source_config }: Pick<Deployment, 'source_config'>): boolean =>
  source_config.repo_url != null
