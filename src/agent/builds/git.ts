// The files of a repository at a commit: fetched shallowly with real git into a mirror that the deployment keeps.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { type Commit, type Task, Unworkable } from '../engines/engine.ts'
import { remove, sizeOf } from '../files.ts'
import { cutAt } from '../last-lines.ts'
import { runCommand } from './command.ts'

export type GitSource = {
  url: string
  ref: string
  commit_sha: string | null
  /** Asked for when it is needed: it may be good for a short time only. */
  credential: (signal: AbortSignal) => Promise<Credential | null>
}
export type Credential = { username: string; password: string }
type Options = { revision: string; task: Task; folder: string; disk_mb: number; path: string }

const PEELED = '^{}'
const WHOLE = /^[0-9a-f]{40}([0-9a-f]{24})?$/
const MIRROR_MB = 1024
const GIT_MS = 5 * 60_000

export async function checkOut(source: GitSource, options: Options): Promise<Commit> {
  const mirror = join(options.task.cache, 'git')
  try {
    return await attempt(source, options, mirror)
  } catch (error) {
    // What an earlier agent was killed in the middle of may have spoilt the mirror; a fresh one tells.
    if (options.task.signal.aborted || !/corrupt|not a git repository|bad object|\.lock/i.test(String(error)))
      throw error
    await remove(mirror)
    await remove(options.folder)
    return attempt(source, options, mirror)
  }
}

async function attempt(
  source: GitSource,
  { revision, task, folder, disk_mb, path }: Options,
  mirror: string,
): Promise<Commit> {
  const { url, ref } = source
  const credential = await source.credential(task.signal)
  const hidden = credential ? [credential.password, basic(credential), encodeURIComponent(credential.password)] : []
  // A server may say again what it was told.
  const hide = (line: string) => hidden.reduce((text, one) => text.replaceAll(one, '***'), line)
  const env = environment(task, url, credential, path)
  const git = async (args: string[], what: string, extra: Record<string, string> = {}) => {
    const lines: string[] = []
    const command = ['git', '--git-dir', mirror, ...args]
    const output = (line: string) => void lines.push(line)
    await runCommand(command, {
      cwd: task.cache,
      env: { ...env, ...extra },
      revision,
      task,
      what,
      output,
      hide,
      time_ms: GIT_MS,
    })
    return lines
  }

  fs.mkdirSync(join(task.cache, 'home'), { recursive: true, mode: 0o700 })
  if (!fs.existsSync(join(mirror, 'HEAD'))) await git(['init', '--quiet', '--bare'], 'git')
  // A lock that a killed git left would be in everybody's way.
  fs.rmSync(join(mirror, 'shallow.lock'), { force: true })

  task.log(`Fetching ${ref} of ${url}`)
  const { sha, at } = source.commit_sha
    ? { sha: source.commit_sha, at: source.commit_sha }
    : resolved(
        ref,
        url,
        await git(
          ['ls-remote', '--', url, ...namesOf(ref)],
          `The repository ${url} cannot be read: see that it is there, and that its integration may read it. Git`,
        ),
      )
  const fetch = ['fetch', '--quiet', '--depth=1', '--no-tags', '--no-recurse-submodules', '--force', '--', url]
  const keep = `refs/slipway/${revision}`
  const what = `The commit ${sha} cannot be fetched from ${url}: git`
  await git([...fetch, `${sha}:${keep}`], what).catch(async error => {
    // A server that gives out only what its branches point to.
    if (at === sha || task.signal.aborted) throw error
    await git([...fetch, `${at}:${keep}`], what)
  })

  const [commit = '', author = '', ...message] = await git(['log', '-1', '--format=%H%n%an%n%B', keep], 'git')
  task.log(`Building commit ${commit}: ${message[0] ?? ''}`)
  fs.mkdirSync(folder, { recursive: true })
  const index = { GIT_INDEX_FILE: `${folder}.index`, GIT_WORK_TREE: folder }
  await git(['read-tree', commit], 'git', index)
  await git(['checkout-index', '--all', '--force', '--quiet'], 'git', index)
  fs.rmSync(`${folder}.index`, { force: true })
  if ((await sizeOf(folder, disk_mb)) > disk_mb)
    throw new Unworkable(`The commit has more than the ${disk_mb} MB that a source may.`)
  if (fs.existsSync(join(folder, '.gitmodules'))) task.log('Its submodules are left out.', 'WARNING')
  if ((await sizeOf(mirror, MIRROR_MB)) >= MIRROR_MB) await remove(mirror)
  return {
    sha: commit,
    author: cutAt(author, 200) || null,
    message: cutAt(message.join('\n').trim(), 2000) || null,
  }
}

/** Asked for by these names, a repository of many refs does not tell them all. */
const namesOf = (ref: string) => [ref, `refs/heads/${ref}`, `refs/tags/${ref}`].flatMap(name => [name, name + PEELED])

/** As git itself looks for it: the whole name, a branch, a tag, a commit. */
function resolved(ref: string, url: string, lines: string[]): { sha: string; at: string } {
  const refs = new Map(lines.map(line => line.split('\t').reverse() as [string, string]))
  for (const name of namesOf(ref)) {
    // Of an annotated tag, the commit that it is of.
    const sha = refs.get(name + PEELED) ?? refs.get(name)
    if (sha && name !== 'HEAD') return { sha, at: name }
  }
  if (WHOLE.test(ref)) return { sha: ref, at: ref }
  throw new Unworkable(
    `${url} has no branch, tag or whole commit id \`${ref}\`: correct \`repo_ref\`, or push the branch.`,
  )
}

const basic = ({ username, password }: { username: string; password: string }) =>
  Buffer.from(`${username}:${password}`).toString('base64')

/** Nothing of this machine's configuration; the credential in the environment, where no list of processes shows it. */
function environment(task: Task, url: string, credential: Credential | null, PATH: string): Record<string, string> {
  const settings: [string, string][] = [
    ['core.hooksPath', '/dev/null'],
    ['core.fsmonitor', 'false'],
    ['credential.helper', ''],
    ['gc.auto', '0'],
    ['protocol.version', '2'],
  ]
  if (credential)
    settings.push([`http.${new URL(url).origin}/.extraHeader`, `Authorization: Basic ${basic(credential)}`])
  return {
    PATH,
    HOME: join(task.cache, 'home'),
    LANG: 'C.UTF-8',
    GIT_TERMINAL_PROMPT: '0',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ALLOW_PROTOCOL: 'http:https',
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([key, value], i) => [
        [`GIT_CONFIG_KEY_${i}`, key],
        [`GIT_CONFIG_VALUE_${i}`, value],
      ]),
    ),
  }
}
