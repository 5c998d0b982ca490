// The rules for the files that a deploy packs, for the command line and for pages. Pure.
import ignore, { type Ignore } from 'ignore'
import type { TarHeader } from 'modern-tar'

export const ALWAYS_IGNORED = ['.git', 'node_modules', '.slipway', '.DS_Store']
/** Builds make these again. Compiled code of Cargo and Maven is at the root. */
const MADE = ['.venv/', '.next/', '__pycache__/', '/target/']
/** The last one is a file of Rails, which takes the values of production from variables. */
const SECRETS = [
  ...['.env*', '*.env', '!.env.example', '!.env.sample', '!.env.template', '!example.env', '!sample.env'],
  ...['id_rsa', 'id_dsa', 'id_ecdsa', 'id_ed25519', '*.pem', '*.key', '*.p12', '*.pfx'],
  ...['secrets.yaml', 'secrets.yml', 'secrets.json', 'secrets.toml', 'credentials.json', 'service-account*.json'],
  ...['serviceAccount*.json', '!/config/secrets.yml'],
]
/** The second decides over the first, as those of a folder do over its parent's. */
export const IGNORE_FILES = ['.gitignore', '.slipwayignore']
export const MAX_UNPACKED_BYTES = 2 * 1024 ** 3
export const MAX_ARCHIVE_BYTES = 200 * 1024 ** 2
/** The runtime configuration in the root of a source. */
export const CONFIGURATION = 'slipway.json'

/** The rules of a folder, whose path ends with a slash, or is empty for the root. */
export type IgnoreRules = { folder: string; rules: Ignore }
export const readRules = (folder: string, texts: string[]): IgnoreRules[] =>
  texts.length === 0 ? [] : [{ folder, rules: ignore().add(texts.join('\n')) }]

/** `path` is relative to the root, with a slash at the end of a folder's. */
export function isIgnored(path: string, all: IgnoreRules[]): boolean {
  let ignored = false
  for (const { folder, rules } of all) {
    const result = rules.test(path.slice(folder.length))
    if (result.ignored) ignored = true
    else if (result.unignored) ignored = false
  }
  return ignored
}

const secrets = ignore().add(SECRETS)
/** Left out unless somebody says otherwise: everyone who may read the source could read it. */
export const mayHoldSecrets = (path: string): boolean => secrets.ignores(path)

/** The rules before those of the folder, which can take a file in again with `!`. */
export const MADE_RULES: IgnoreRules = { folder: '', rules: ignore().add(MADE) }
export const SECRET_RULES: IgnoreRules = { folder: '', rules: secrets }

/** The same for the same file, whenever and by whomever it was written. */
export const describeFile = (name: string, size: number, isExecutable: boolean): TarHeader => ({
  ...describeEntry(name),
  type: 'file',
  size,
  mode: isExecutable ? 0o755 : 0o644,
})
export const describeLink = (name: string, linkname: string): TarHeader => ({
  ...describeEntry(name),
  type: 'symlink',
  linkname,
  size: 0,
  mode: 0o777,
})
const describeEntry = (name: string) => ({ name, mtime: new Date(0), uid: 0, gid: 0, uname: '', gname: '' })

type PackageFile = { name?: string; startScript?: string }
/** The name without its scope, and the start script. */
export function readPackageFile(text: string): PackageFile {
  const { name } = JSON.parse(text) as { name?: unknown }
  const hasName = typeof name === 'string' && /[a-z0-9]/i.test(name)
  return {
    ...(hasName && { name: name.replace(/^@[^/]*\//, '') }),
  }
}

const MAX_NAME_LENGTH = 63
/** A name that a deployment can have. */
export const toName = (text: string): string =>
  (text.toLowerCase().match(/[a-z0-9]+/g) ?? ['app']).join('-').slice(0, MAX_NAME_LENGTH).replace(/-$/, '')
