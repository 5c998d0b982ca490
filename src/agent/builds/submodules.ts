// Fetches public submodules at the host of the repository. Git's own code for submodules is not used: what a repository
// names in `.gitmodules` has made it run programs and write elsewhere. Each is fetched as a repository of its own,
// without a credential, because a credential may reach more than the people who may push. By SSH with the deploy key,
// which somebody has added to each repository that it reads.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { parseSshUrl, toSshUrl } from '../../protocol/ssh-url.ts'
import { type BuildTask, PermanentError } from '../engine.ts'
import { measureMegabytes } from '../system/files.ts'

const MAX_SUBMODULES = 50
const MAX_DEPTH = 4
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to refuse
const CONTROL_CHARACTER = /[\0-\x1f\x7f]/
const FORBIDDEN_SEGMENT = /^(\.{0,2}|\.git)$/i
const HELP = 'Add its files to the repository, or fetch them in `install_command`.'

type Git = (args: string[]) => Promise<string[]>
type Submodule = { path: string; url: string }
type Options = {
  /** Runs git in the mirror. */
  git: Git
  /** Fetches a commit without a credential, writes its files into the folder, and fetches those in Git LFS. */
  checkOut: (url: URL, sha: string, folder: string) => Promise<void>
  /** The folder of the whole repository. */
  root: string
  disk_mb: number
  task: Pick<BuildTask, 'log' | 'signal'>
}
type Parent = { commit: string; url: URL; folder: string; depth: number }

/** Returns the reasons why some are not fetched. Fails where the host is away, so that the build is tried again. */
export async function fetchSubmodules(parent: Omit<Parent, 'depth'>, options: Options): Promise<string[]> {
  const faults: string[] = []
  const { task, root } = options
  let count = 0

  async function visit({ commit, url, folder, depth }: Parent): Promise<void> {
    for (const submodule of await readModules(options.git, commit, folder)) {
      const target = join(folder, submodule.path)
      const name = target.slice(root.length + 1)
      try {
        const sha = await findCommit(options.git, commit, submodule.path)
        if (sha === null) continue
        if (++count > MAX_SUBMODULES || depth > MAX_DEPTH)
          throw new PermanentError(`At most ${MAX_SUBMODULES} are fetched, ${MAX_DEPTH} deep.`)
        const source = resolveUrl(submodule.url, url)
        assertEmptyFolder(root, name)
        task.log(`Fetching the submodule ${name} of ${source.href}`)
        await options.checkOut(source, sha, target)
        if ((await measureMegabytes(root, options.disk_mb)) > options.disk_mb)
          throw new PermanentError(`With it, the files take more than ${options.disk_mb} MB.`)
        await visit({ commit: sha, url: source, folder: target, depth: depth + 1 })
      } catch (error) {
        if (!(error instanceof PermanentError) || task.signal.aborted) throw error
        // The last lines of git have lines of their own.
        const space = error.message.includes('\n') ? '\n' : ' '
        faults.push(`The submodule \`${name}\` is not fetched. ${error.message}${space}${HELP}`)
        // The rest would fail in the same way, and each would be counted again.
        if (count > MAX_SUBMODULES) return
      }
    }
  }
  try {
    await visit({ ...parent, depth: 1 })
  } catch (error) {
    if (!(error instanceof PermanentError) || task.signal.aborted) throw error
    faults.push(`The submodules are not fetched. ${error.message}`)
  }
  return faults
}

/** The sections of `.gitmodules`, without those that are not to be fetched. */
async function readModules(git: Git, commit: string, folder: string): Promise<Submodule[]> {
  if (!fs.lstatSync(join(folder, '.gitmodules'), { throwIfNoEntry: false })?.isFile()) return []
  const modules = new Map<string, Record<string, string>>()
  for (const line of await git(['config', '--no-includes', '--blob', `${commit}:.gitmodules`, '--list'])) {
    const [, member] = /\.(path|url|update)=/.exec(line) ?? []
    if (!line.startsWith('submodule.') || member === undefined) continue
    const at = line.indexOf(`.${member}=`)
    const name = line.slice('submodule.'.length, at)
    modules.set(name, { ...modules.get(name), [member]: line.slice(at + member.length + 2) })
  }
  if (modules.size > MAX_SUBMODULES)
    throw new PermanentError(`\`.gitmodules\` names ${modules.size}. At most ${MAX_SUBMODULES} are fetched.`)
  return [...modules.values()].flatMap(({ path, url, update }) =>
    path !== undefined && url !== undefined && update !== 'none' ? [{ path, url }] : [],
  )
}

/** The commit of a submodule. Null where the tree has none at this path. */
async function findCommit(git: Git, commit: string, path: string): Promise<string | null> {
  const isOrdinary = !CONTROL_CHARACTER.test(path) && !path.split('/').some(part => FORBIDDEN_SEGMENT.test(part))
  if (!isOrdinary) throw new PermanentError('Its path leads out of the repository, or is none.')
  const format = '--format=%(objectmode) %(objectname)'
  const lines = await git(['--literal-pathspecs', 'ls-tree', '--full-tree', format, commit, '--', path])
  const [, sha] = /^160000 ([0-9a-f]{40,64})$/.exec(lines[0] ?? '') ?? []
  return sha ?? null
}

/** Git takes the URL of the repository for a folder, also where it has no slash at its end. */
function resolveUrl(text: string, parent: URL): URL {
  const base = `${parent.href.replace(/\/$/, '')}/`
  if (parent.protocol === 'ssh:') return resolveSshUrl(text, parent, base)
  const url = text.startsWith('./') || text.startsWith('../') ? URL.parse(text, base) : URL.parse(text)
  if (url?.origin !== parent.origin || !/^https?:$/.test(url.protocol))
    throw new PermanentError(`Only repositories at ${parent.origin} are, by that address or a relative one.`)
  if (url.username || url.password || url.search || url.hash)
    throw new PermanentError('Its URL has a user name, a password, a query or a fragment.')
  return url
}

function resolveSshUrl(text: string, parent: URL, base: string): URL {
  const isRelative = text.startsWith('./') || text.startsWith('../')
  const parsed = parseSshUrl(isRelative ? (URL.parse(text, base)?.href ?? '') : text)
  const url = parsed && toSshUrl(parsed)
  if (url?.host !== parent.host || url.username !== parent.username)
    throw new PermanentError(`Only repositories at ${parent.host} are, by SSH or a relative address.`)
  return url
}

/** Git has made the folder, in place of whatever the commit had there. Nothing may lead out of the repository. */
function assertEmptyFolder(root: string, name: string): void {
  const folder = join(root, name)
  const isInside = fs.existsSync(folder) && fs.realpathSync(folder) === join(fs.realpathSync(root), name)
  if (!isInside || fs.readdirSync(folder).length > 0)
    throw new PermanentError('Its path is a link, or has files of the repository.')
}
