// The client of any git server by the URL of one repository: it reads refs, by SSH those that an agent has seen. There
// is no API for more.
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import type { DatabaseServices, SealingServices } from '../../kernel/http/context.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import { MAX_SEEN_REFS } from '../../protocol/repository-looks.schema.ts'
import { type Credentials, openCredentials } from './credentials.ts'
import { type Commit, type Githost, type Integration, parseRepositoryUrl } from './githost.ts'
import { createGitClient } from './request.ts'
import { awaitLook, readSeenRefs } from './seen-refs.ts'
import { FULL_SHA, listRefs } from './smart-http.ts'
import { sshKeysOf } from './ssh-access.ts'

const BRANCH_PREFIX = 'refs/heads/'
/** A server can list whatever it likes. Other hosts list no more either. */
const [MAX_BRANCHES, MAX_BRANCH_LENGTH] = [4000, 255]
/** A JSON number holds 53 bits. */
const ID_DIGITS = 12
const TOO_MANY_REFS =
  `by SSH at most ${MAX_SEEN_REFS} branches and tags are read, and this one is not among them. Delete old ones, or ` +
  'connect the repository by HTTPS'
/** Servers that know tokens alone ignore the name. */
const DEFAULT_USERNAME = 'git'

export type GitLogin = { username?: string | null | undefined; token?: string | null | undefined }

export const basicHeaders = ({ username, token }: GitLogin): Record<string, string> =>
  token ? { Authorization: `Basic ${btoaUtf8(`${username || DEFAULT_USERNAME}:${token}`)}` } : {}
const btoaUtf8 = (text: string) => Buffer.from(text).toString('base64')

export function createPlainGitHost(
  services: SealingServices & DatabaseServices,
  origin: string,
  row: Integration,
): Githost {
  const { config, platform, sealer } = services
  const { ssh } = row
  let opened: Promise<GitLogin & Pick<Credentials, 'deploy_keys'>> | undefined
  const login = () => {
    opened ??= openCredentials(sealer, row).then(credentials => credentials ?? {})
    return opened
  }
  const requireOwn = (repo_url: string): void => {
    if (!parseRepositoryUrl(row, repo_url)) throw fail('repository_not_found')
  }
  async function list(prefixes: string[]) {
    if (ssh) return (await readSeenRefs(services, row)).refs ?? Promise.reject(await awaitLook(services, row))
    const client = createGitClient({ config, platform }, origin)
    return listRefs({ client, url: row.base_url, headers: basicHeaders(await login()) }, prefixes)
  }
  const refuse = async () => {
    throw fail('githost_unsupported')
  }

  async function commit(repo_url: string, ref: string): Promise<Commit | null> {
    requireOwn(repo_url)
    // The message and the author are known once an agent has fetched the commit.
    const known = (sha: string): Commit => ({ sha, author: null, message: null })
    const names = [ref, `refs/heads/${ref}`, `refs/tags/${ref}`]
    const refs = (await list(names)) ?? []
    for (const name of names) {
      const found = refs.find(one => one.name === name && name !== 'HEAD')
      if (found?.sha) return known(found.peeled ?? found.sha)
    }
    if (FULL_SHA.test(ref)) return known(ref)
    if (!ssh) return null
    const { isFresh, isCut } = await readSeenRefs(services, row)
    if (isCut) throw fail('upstream_error', { about: TOO_MANY_REFS })
    // It may have been pushed since.
    if (!isFresh) throw await awaitLook(services, row)
    return null
  }

  /** One that is not told says nothing: it must not be taken for deleted. */
  async function head(repo_url: string, ref: string): Promise<Commit | null | 'unchanged'> {
    return commit(repo_url, ref).catch(error => {
      if (error instanceof Failure && error.extra.about === TOO_MANY_REFS) return 'unchanged'
      throw error
    })
  }

  return {
    async repositories() {
      const refs = ssh ? ((await readSeenRefs(services, row)).refs ?? []) : await list(['HEAD'])
      if (refs === null) throw fail('repository_not_found')
      const head = refs.find(({ name }) => name === 'HEAD')
      const { owner, name } = parseRepositoryUrl(row, row.base_url)!
      const repository = {
        id: Number.parseInt(sha256Hex(row.base_url).slice(0, ID_DIGITS), 16),
        owner,
        name,
        url: row.base_url,
        default_branch: head?.symref?.replace(/^refs\/heads\//, '') ?? '',
        archived: false,
        // One that no agent has read yet is not known to be empty.
        empty: head !== undefined && head.sha === null,
      }
      return [{ etag: null, repositories: [repository] }]
    },
    commit,
    head,
    async repository(repo_url) {
      requireOwn(repo_url)
      return (await list(['HEAD'])) === null ? null : { id: row.base_url, url: row.base_url }
    },
    async credential(repo_url) {
      requireOwn(repo_url)
      const { username, token, ...keys } = await login()
      if (ssh) return { ssh: sshKeysOf(ssh, keys) }
      return token ? { username: username || DEFAULT_USERNAME, password: token, expires_at: null } : null
    },
    changedFiles: async () => null,
    async branches(repo_url) {
      requireOwn(repo_url)
      const refs = await list([BRANCH_PREFIX])
      if (refs === null) throw fail('repository_not_found')
      const heads = refs.flatMap(({ name, sha }) =>
        sha === null || !name.startsWith(BRANCH_PREFIX) ? [] : [[name.slice(BRANCH_PREFIX.length), sha]],
      )
      const isUsable = ([name = '']: string[]) => name.length <= MAX_BRANCH_LENGTH && !/[\0-\x20\x7f\ufffd]/.test(name)
      return Object.fromEntries(heads.filter(isUsable).slice(0, MAX_BRANCHES)) as Record<string, string>
    },
    openPulls: refuse,
    pull: refuse,
    setStatus: refuse,
    showRevision: null,
    comment: refuse,
    ensureWebhook: async () => null,
    removeWebhook: async () => {},
    mintedToken: () => null,
  }
}
