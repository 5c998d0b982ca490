// The kinds of git hosts, and what Slipway can do at each (pure). What a host cannot do is refused, or shown, by name.

export const hostCapabilities = [
  'list_repositories',
  'make_webhooks',
  'pull_requests',
  'comments',
  'commit_statuses',
  'deployments',
  'commit_messages',
  'changed_files',
  'repository_ids',
] as const
export type HostCapability = (typeof hostCapabilities)[number]

type HostKind = {
  /** The credential that a workspace connects with. */
  credential: 'app' | 'token' | 'repository'
  /** The host in the cloud. Others need a `base_url`. */
  cloudUrl: string | null
  can: readonly HostCapability[]
  /** The right that a refused credential lacks, as a sentence. */
  grants: string
  pullRef: (number: number) => string
  /** The paths of pages of a repository. Null where there are none. */
  pages: { commit: string; pull: string } | null
}

const FORGE = [
  ...(['list_repositories', 'make_webhooks', 'pull_requests', 'comments', 'commit_statuses'] as const),
  ...(['commit_messages', 'changed_files', 'repository_ids'] as const),
]
const ofPullRequest = (number: number) => `refs/pull/${number}/head`
const GITEA: HostKind = {
  credential: 'token',
  cloudUrl: null,
  can: FORGE,
  grants: 'The token needs the scopes read:user, write:repository and write:issue.',
  pullRef: ofPullRequest,
  pages: { commit: 'commit', pull: 'pulls' },
}

const HOST_KINDS = {
  github: {
    credential: 'app',
    cloudUrl: 'https://github.com',
    // Its App has one webhook, which a person makes with the App.
    can: [...FORGE.filter(one => one !== 'make_webhooks'), 'deployments'],
    grants: 'Grant the App this permission at GitHub, and accept it there for the account.',
    pullRef: ofPullRequest,
    pages: { commit: 'commit', pull: 'pull' },
  },
  gitlab: {
    credential: 'token',
    cloudUrl: 'https://gitlab.com',
    can: FORGE,
    grants: 'The token needs the scope api, and its account the role Maintainer to make webhooks.',
    pullRef: number => `refs/merge-requests/${number}/head`,
    pages: { commit: '-/commit', pull: '-/merge_requests' },
  },
  gitea: GITEA,
  forgejo: GITEA,
  /** Any git server, by the URL of one repository. Its refs are all that it tells. */
  git: {
    credential: 'repository',
    cloudUrl: null,
    can: [],
    grants: 'The token, or the password, must be allowed to read the repository.',
    pullRef: ofPullRequest,
    pages: null,
  },
} satisfies Record<string, HostKind>

export type HostName = keyof typeof HOST_KINDS
export const hostNames = Object.keys(HOST_KINDS) as [HostName, ...HostName[]]

const kindOf = (host: HostName): HostKind => HOST_KINDS[host]
export const canHost = (host: HostName, capability: HostCapability): boolean => kindOf(host).can.includes(capability)
export const capabilitiesOf = (host: HostName): HostCapability[] => [...kindOf(host).can]
export const usesToken = (host: HostName): boolean => kindOf(host).credential !== 'app'
export const cloudUrlOf = (host: HostName): string | null => kindOf(host).cloudUrl
export const pagesOf = (host: HostName) => kindOf(host).pages
export const grantsOf = (host: HostName): string => kindOf(host).grants
export const pullRefOf = (host: HostName, number: number): string => kindOf(host).pullRef(number)
