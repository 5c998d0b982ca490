// Checks out one commit of a repository: fetched shallowly with git into a mirror that the deployment keeps.
import { execFile } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Network } from '../../protocol/address-kind.ts'
import type { GitCredential, HttpCredential } from '../control-plane/credentials.ts'
import { type BuildTask, type Commit, PermanentError, SourceUnavailable } from '../engine.ts'
import { measureMegabytes, removeRecursively } from '../system/files.ts'
import { truncateText } from '../system/last-lines.ts'
import { type AllowedAddress, remoteOf, resolveAllowedAddress } from './allowed-address.ts'
import { runCommand } from './command.ts'
import { basicAuth, gitEnvironment, withLimitedMemory } from './git-environment.ts'
import { describeGitFailure } from './git-failures.ts'
import { fetchLfsFiles, findPointers } from './lfs-files.ts'
import { openSshSession, type SshSession } from './ssh-session.ts'
import { fetchSubmodules } from './submodules.ts'

export type GitSource = {
  url: string
  ref: string
  commit_sha: string | null
  /** Called right before the credential is used, because it may be short-lived. */
  credential: (signal: AbortSignal) => Promise<GitCredential | null>
}
type Options = {
  revision: string
  task: BuildTask
  folder: string
  disk_mb: number
  path: string
  networks: Network[]
}

const PEELED_SUFFIX = '^{}'
const FULL_SHA = /^[0-9a-f]{40}([0-9a-f]{24})?$/
const MAX_MIRROR_MB = 1024
const MAX_OUTPUT_CHARACTERS = 1024 * 1024
const GIT_TIMEOUT_MS = 5 * 60_000
/** Older versions lack `http.curloptResolve`: they would resolve the name again, past the check of its addresses. */
const OLDEST_GIT = [2, 37] as const
const MIRROR_CONFIG = '[core]\n\trepositoryformatversion = 0\n\tbare = true\n'
const REDIRECT_RESPONSE = /returned error: 30\d/

/** `faults`: the reasons why files of Git LFS or of submodules are missing. */
export type Checkout = { commit: Commit; faults: string[] }

export async function checkOutCommit(source: GitSource, options: Options): Promise<Checkout> {
  const mirror = join(options.task.cache, 'git')
  try {
    return await checkOutOnce(source, options, mirror)
  } catch (error) {
    // An agent that was killed during a fetch may have damaged the mirror. Try once more with a new one.
    if (options.task.signal.aborted || !/corrupt|not a git repository|bad object|\.lock/i.test(String(error)))
      throw error
    await removeRecursively(mirror)
    await removeRecursively(options.folder)
    return checkOutOnce(source, options, mirror)
  }
}

async function checkOutOnce(
  source: GitSource,
  { revision, task, folder, disk_mb, path, networks }: Options,
  mirror: string,
): Promise<Checkout> {
  const { ref } = source
  await assertGitVersion(path)
  const address = await resolveAllowedAddress(source.url, networks)
  const url = remoteOf(address.url)
  const login = await source.credential(task.signal)
  const credential = login && !('ssh' in login) ? login : null
  using ssh = await openSession(address, login)
  const runner = { revision, task, disk_mb, path, mirror, ssh }
  const git = createGit({ ...runner, address, credential })

  fs.mkdirSync(join(task.cache, 'home'), { recursive: true, mode: 0o700 })
  await resetMirror(mirror)
  if (!fs.existsSync(join(mirror, 'HEAD'))) await git(['init', '--quiet', '--bare', '--template='], 'git')
  // A git that was killed may have left its lock.
  fs.rmSync(join(mirror, 'shallow.lock'), { force: true })

  task.log(`Fetching ${ref} of ${url}`)
  const localRef = `refs/slipway/${revision}`
  await fetchCommit(git, source, url, localRef, task.signal)
  const [commit = '', author = '', ...message] = await git(['log', '-1', '--format=%H%n%an%n%B', localRef], 'git')
  task.log(`Building commit ${commit}: ${message[0] ?? ''}`)
  const indexFile = `${folder}.index`
  await writeFiles(git, commit, folder, indexFile)
  if ((await measureMegabytes(folder, disk_mb)) > disk_mb)
    throw new PermanentError(
      `The files of the commit take more than ${disk_mb} MB. Remove large files from the repository.`,
    )
  const redactLine = redactCredential(credential)
  const lfsFault = await replacePointers({ address, credential, folder, disk_mb, redactLine, task })
  const submoduleFaults = await fetchSubmodules(
    { commit, url: address.url, folder },
    {
      git: args => git(args, 'git'),
      root: folder,
      disk_mb,
      task,
      checkOut: async (url, sha, target) => {
        // The same host and port, so the addresses that were checked are its own.
        const submodule = { address: { ...address, url }, credential: null }
        const anonymous = createGit({ ...runner, ...submodule, isSubmodule: true })
        await fetchCommit(anonymous, { ref: sha, commit_sha: sha }, remoteOf(url), `${localRef}-${sha}`, task.signal)
        await writeFiles(anonymous, sha, target, indexFile)
        const fault = await replacePointers({ ...submodule, folder: target, disk_mb, redactLine: line => line, task })
        if (fault !== null) throw new PermanentError(fault)
      },
    },
  )
  if ((await measureMegabytes(mirror, MAX_MIRROR_MB)) >= MAX_MIRROR_MB) await removeRecursively(mirror)
  const described = {
    sha: commit,
    author: truncateText(author, 200) || null,
    message: truncateText(message.join('\n').trim(), 2000) || null,
  }
  return { commit: described, faults: [...(lfsFault === null ? [] : [lfsFault]), ...submoduleFaults] }
}

/** A repository by SSH needs keys, and no other has any. */
async function openSession(address: AllowedAddress, login: GitCredential | null): Promise<SshSession | null> {
  if (address.url.protocol !== 'ssh:') return null
  const url = remoteOf(address.url)
  if (!login || !('ssh' in login))
    throw new PermanentError(`The repository ${url} needs a deploy key. Connect it as an integration of its own.`)
  if (login.ssh.host_keys.length === 0)
    throw new SourceUnavailable(`The key of the host of ${url} is not known yet: an agent looks at it first.`)
  return openSshSession(address, login.ssh)
}

/** The index is beside the tree: within it, a link of the repository could lead it elsewhere. */
async function writeFiles(git: Git, commit: string, folder: string, indexFile: string): Promise<void> {
  fs.mkdirSync(folder, { recursive: true })
  const index = { GIT_INDEX_FILE: indexFile, GIT_WORK_TREE: folder }
  await git(['read-tree', commit], 'git', index)
  await git(['checkout-index', '--all', '--force', '--quiet'], 'git', index)
  fs.rmSync(indexFile, { force: true })
}

async function replacePointers(options: Parameters<typeof fetchLfsFiles>[1]): Promise<string | null> {
  const pointers = await findPointers(options.folder)
  if (pointers.length === 0) return null
  if (options.address.url.protocol === 'ssh:')
    return 'The repository has files in Git LFS, which are not fetched by SSH. Connect it by HTTPS, or add the files.'
  try {
    await fetchLfsFiles(pointers, options)
    return null
  } catch (error) {
    if (!(error instanceof PermanentError) || options.task.signal.aborted) throw error
    return error.message
  }
}

type Index = { GIT_INDEX_FILE: string; GIT_WORK_TREE: string }
type Git = (args: string[], label: string, index?: Index) => Promise<string[]>
type Runner = Pick<Options, 'revision' | 'task' | 'disk_mb' | 'path'> & {
  mirror: string
  address: AllowedAddress
  credential: HttpCredential | null
  ssh: SshSession | null
  isSubmodule?: boolean
}

/** Runs git in the mirror, for the repository at this address. */
function createGit({ revision, task, disk_mb, path, mirror, address, credential, ssh, isSubmodule }: Runner): Git {
  const url = remoteOf(address.url)
  const redactLine = redactCredential(credential)
  const env = gitEnvironment(join(task.cache, 'home'), address, { credential, ssh }, path)
  return async (args, label, index) => {
    const lines: string[] = []
    const git = ['git', '--git-dir', mirror, ...args]
    const limit = args[0] === 'ls-remote' ? 'refs' : args[0] === 'fetch' ? 'objects' : null
    const command = limit ? withLimitedMemory(git, limit) : git
    let remaining = MAX_OUTPUT_CHARACTERS
    const output = (line: string) => {
      remaining -= line.length + 1
      if (remaining >= 0) lines.push(line)
    }
    await runCommand(command, {
      ...(index ? { cwd: index.GIT_WORK_TREE, disk_mb } : { cwd: mirror, disk_mb: 2 * MAX_MIRROR_MB }),
      env: { ...env, ...index },
      revision,
      task,
      label,
      output,
      redactLine,
      time_ms: GIT_TIMEOUT_MS,
    }).catch(error => {
      if (!(error instanceof PermanentError)) throw error
      throw REDIRECT_RESPONSE.test(error.message) ? redirectError(url) : describeGitFailure(url, error, isSubmodule)
    })
    return lines
  }
}

async function fetchCommit(
  git: Git,
  { ref, commit_sha }: Pick<GitSource, 'ref' | 'commit_sha'>,
  url: string,
  localRef: string,
  signal: AbortSignal,
): Promise<void> {
  const { sha, at } = commit_sha
    ? { sha: commit_sha, at: commit_sha }
    : resolveRef(
        ref,
        url,
        await git(
          ['ls-remote', '--', url, ...candidateRefs(ref)],
          `The repository ${url} cannot be read. Check that it exists and that the integration may read it. Git`,
        ),
      )
  const fetch = ['fetch', '--quiet', '--depth=1', '--no-tags', '--no-recurse-submodules', '--force', '--', url]
  const label = `The commit ${sha} cannot be fetched from ${url}: git`
  await git([...fetch, `${sha}:${localRef}`], label).catch(async error => {
    // Some servers only send commits that a ref points to.
    if (at === sha || signal.aborted || error instanceof SourceUnavailable) throw error
    await git([...fetch, `${at}:${localRef}`], label)
  })
}

async function assertGitVersion(PATH: string): Promise<void> {
  const { stdout } = await promisify(execFile)('git', ['version'], { env: { PATH } }).catch(() => ({ stdout: '' }))
  const [, major = 0, minor = 0] = /^git version (\d{1,3})\.(\d{1,3})/.exec(stdout) ?? []
  const [minMajor, minMinor] = OLDEST_GIT
  if (Number(major) > minMajor || (Number(major) === minMajor && Number(minor) >= minMinor)) return
  throw new PermanentError(
    `The agent’s machine has no git ${OLDEST_GIT.join('.')} or newer. Ask the operator of the agent to install it.`,
  )
}

/** Removes everything that configures git: builds of the deployment could have written it. */
async function resetMirror(mirror: string): Promise<void> {
  if (!fs.lstatSync(mirror, { throwIfNoEntry: false })?.isDirectory()) await removeRecursively(mirror)
  fs.mkdirSync(mirror, { recursive: true, mode: 0o700 })
  for (const name of ['config', 'config.worktree', 'info', 'hooks', 'commondir', 'objects/info'])
    await removeRecursively(join(mirror, name))
  if (fs.existsSync(join(mirror, 'HEAD'))) fs.writeFileSync(join(mirror, 'config'), MIRROR_CONFIG)
}

const redirectError = (url: string) =>
  new PermanentError(
    `The repository ${url} cannot be read: its server redirects to another URL, which is not followed. ` +
      'Use the URL that it redirects to.',
  )

/** Listing only these names keeps the answer of a repository with many refs short. */
const candidateRefs = (ref: string) =>
  [ref, `refs/heads/${ref}`, `refs/tags/${ref}`].flatMap(name => [name, name + PEELED_SUFFIX])

function resolveRef(ref: string, url: string, lines: string[]): { sha: string; at: string } {
  const refs = new Map(lines.map(line => line.split('\t').reverse() as [string, string]))
  for (const name of candidateRefs(ref)) {
    const sha = refs.get(name + PEELED_SUFFIX) ?? refs.get(name)
    if (sha && name !== 'HEAD') return { sha, at: name }
  }
  if (FULL_SHA.test(ref)) return { sha: ref, at: ref }
  throw new PermanentError(
    `The repository ${url} has no branch, tag or full commit id \`${ref}\`. Correct \`repo_ref\`, or push the branch.`,
  )
}

/** A server may echo it. */
function redactCredential(credential: HttpCredential | null): (line: string) => string {
  if (!credential) return line => line
  const secrets = [credential.password, basicAuth(credential), encodeURIComponent(credential.password)]
  return line => secrets.reduce((text, secret) => text.replaceAll(secret, '***'), line)
}
