// Reads the request of a step of a workflow from its inputs and the event (pure).

const MODES = ['deploy', 'plan', 'preview', 'remove-preview', 'setup'] as const
type Mode = (typeof MODES)[number]

export type Inputs = {
  mode: Mode
  url: string
  workspace: string
  audience: string
  name: string
  /** Names the preview of the deployment, in the modes of previews: `pr-7`, or a branch. */
  preview: string
  folder: string
  image: string
  create: boolean
  timeout: string
}
type Repository = { full_name?: string } | null
/**
 * The event of a pull request, of a workflow that another one has started (`workflow_run`), or of a branch or tag that
 * was deleted (`ref`).
 */
export type TriggerEvent = {
  action?: string
  pull_request?: { number?: number; head?: { repo?: Repository } }
  workflow_run?: { head_repository?: Repository; head_branch?: string }
  ref?: string
  ref_type?: string
}
type Read = { inputs: Inputs } | { faults: string[] } | { skip: string }

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Reports all faults at once. */
export function readInputs(env: Record<string, string | undefined>, event: TriggerEvent): Read {
  const input = (name: string) => env[`INPUT_${name}`]?.trim() ?? ''
  const faults: string[] = []
  const expect = (isValid: unknown, fault: string) => void (isValid || faults.push(fault))

  const given = input('MODE') as Mode
  const isPreview = given === 'preview' || given === 'remove-preview'
  expect(MODES.includes(given), `mode is not one of ${MODES.join(', ')}.`)
  const url = input('URL').replace(/\/$/, '')
  expect(/^https?:\/\//.test(url) && URL.canParse(url), 'url is not the address of an installation.')
  const workspace = input('WORKSPACE')
  expect(UUID.test(workspace), 'workspace is not the id of a workspace. `slipway whoami` shows it.')
  const deployment = input('DEPLOYMENT')
  if (given !== 'setup') expect(NAME.test(deployment), 'deployment is not the name of a deployment.')
  const timeout = input('TIMEOUT')
  expect(/^[1-9]\d{0,5}$/.test(timeout), 'timeout is not a number of seconds.')
  const create = input('CREATE')
  expect(['true', 'false'].includes(create), 'create is neither true nor false.')
  const [folder, image] = [input('FOLDER'), input('IMAGE')]
  expect(image === '' || folder === '.', 'image and folder are both given. Leave one of them out.')
  const number = input('PULL_REQUEST') || String(event.pull_request?.number ?? '')
  const preview = number === '' ? findBranch(env, event) : `pr-${number}`
  if (isPreview) {
    expect(number === '' || /^[1-9]\d{0,8}$/.test(number), 'pull-request is not a number.')
    expect(preview, 'The event is of no pull request and no branch. Set pull-request.')
    expect(create !== 'true', 'create is for mode deploy: a preview is one of a deployment that exists.')
  }
  const head = event.pull_request?.head
  const isFork = head !== undefined && head.repo?.full_name !== env.GITHUB_REPOSITORY
  // Such a job has the rights of this repository, and a checkout of code that anybody can propose.
  if (isFork && env.GITHUB_EVENT_NAME === 'pull_request_target')
    faults.push('A pull request of a fork is not deployed from pull_request_target. Use the event pull_request.')
  if (faults.length > 0) return { faults }

  // The first workflow may be that of a fork's branch `main`, and this one has the rights of the repository.
  const run = event.workflow_run
  if (run && run.head_repository?.full_name !== env.GITHUB_REPOSITORY)
    return { skip: 'A workflow_run that a fork has started is not deployed.' }
  if (isFork && !env.SLIPWAY_API_KEY && !env.ACTIONS_ID_TOKEN_REQUEST_URL)
    return { skip: 'A workflow of a pull request of a fork gets no token, so it cannot sign in.' }
  const isDeleted = env.GITHUB_EVENT_NAME === 'delete'
  if (isPreview && isDeleted && event.ref_type !== 'branch') return { skip: 'A tag was deleted, which has no preview.' }
  const mode = given === 'preview' && (event.action === 'closed' || isDeleted) ? 'remove-preview' : given
  return {
    inputs: {
      mode,
      url,
      workspace,
      audience: input('AUDIENCE'),
      name: deployment,
      preview,
      // A path that begins with a dash would be an option.
      folder: folder.startsWith('-') ? `./${folder}` : folder || '.',
      image,
      create: create === 'true',
      timeout,
    },
  }
}

/** A `workflow_run`, and the event of a deleted branch, run at the default branch. */
const findBranch = (
  { GITHUB_EVENT_NAME, GITHUB_REF_NAME = '' }: Record<string, string | undefined>,
  { workflow_run, ref = '' }: TriggerEvent,
): string => {
  if (workflow_run) return workflow_run.head_branch ?? ''
  return GITHUB_EVENT_NAME === 'delete' ? ref : GITHUB_REF_NAME
}
