// Actions on a preview, each as one request.
import { type Action, request } from '../../api/actions.ts'
import { shortCommit } from '../../format/source.ts'
import { nameOf, type Preview } from './words.ts'

const refOf = ({ parent_deployment_id, number, id }: Preview) => ({
  deployment_id: parent_deployment_id,
  number: number === null ? id : String(number),
})

const RETURNS = {
  pull_request: 'The pull request stays open, and the next push to it creates the preview again.',
  branch: 'The branch stays, and the next push to it creates the preview again.',
  request: 'Another request creates it again.',
} as const

/** Approves the commit that was shown, also if a newer one has arrived since. */
export const approve = (preview: Preview): Action => ({
  label: `Approve ${shortCommit(preview.head_sha ?? '')}`,
  request: request('POST /v2/deployments/{deployment_id}/previews/{number}/approval', {
    params: refOf(preview),
    body: { head_sha: preview.head_sha ?? '' },
  }),
  done: `${nameOf(preview)}: commit ${shortCommit(preview.head_sha ?? '')} is approved.`,
})

export const remove = (preview: Preview): Action => {
  const waits = preview.state === 'awaiting_approval'
  const commit = shortCommit(preview.head_sha ?? '')
  return {
    label: waits ? `Decline ${commit}` : 'Remove preview',
    request: request('DELETE /v2/deployments/{deployment_id}/previews/{number}', { params: refOf(preview) }),
    confirm: waits
      ? {
          title: `Decline commit ${commit} of ${nameOf(preview)}?`,
          body: 'The commit is not built. The next push to the pull request asks for approval again.',
        }
      : {
          title: `Remove the preview ${nameOf(preview)}?`,
          body: `The deployment, URL and logs are deleted. ${RETURNS[preview.kind]}`,
          isDestructive: true,
        },
    done: waits ? `${nameOf(preview)}: commit ${commit} is declined.` : `${nameOf(preview)} is removed.`,
  }
}
