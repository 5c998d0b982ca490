// Every key of langgraph.json: the form of its value, and what is done in place of what the reference does. Pure.
import { nearestName } from '../../../protocol/nearest-name.ts'

/** Null, or what the value must be. */
type Form = (value: unknown) => string | null
type Key = {
  form: Form
  /** Ends the sentence of a plan that says what happens instead, where the key has a value. */
  instead?: string
  /** Ends the sentence that refuses it. */
  refusal?: string
  /** The keys of an object. */
  members?: Keys
  /** Others are refused: each of them would be a limit that is not kept. */
  isClosed?: true
}
type Keys = Record<string, Key>

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const form =
  (is: (value: unknown) => boolean, wanted: string): Form =>
  value =>
    is(value) ? null : `must be ${wanted}`

const isText = (value: unknown) => typeof value === 'string' && value.trim() !== ''
const text = form(isText, 'a text')
const texts = form(value => Array.isArray(value) && value.every(isText), 'a list of texts')
const flag = form(value => typeof value === 'boolean', 'true or false')
const modules = form(
  value => typeof value === 'boolean' || (Array.isArray(value) && value.every(one => texts(one) === null)),
  'true, false or a list of lists of texts',
)
const number = form(value => typeof value === 'number' && value >= 0, 'a number that is not negative')
const object = form(isObject, 'an object')
const objects = form(value => Array.isArray(value) && value.every(isObject), 'a list of objects')
const textsByName = form(
  value => isObject(value) && Object.values(value).every(one => typeof one === 'string'),
  'an object of texts',
)
const areVariables = (value: unknown) =>
  textsByName(value) === null &&
  Object.entries(value as Record<string, string>).every(
    ([name, one]) => /^[A-Za-z_][A-Za-z0-9_]{0,252}$/.test(name) && !one.includes('\0'),
  )
/** Only the server matches it, in the process of the application. */
function isPattern(value: unknown): boolean {
  if (!isText(value) || (value as string).length > 1000) return false
  try {
    return new RegExp(value as string) instanceof RegExp
  } catch {
    return false
  }
}
const oneOf = (...words: string[]) => form(value => words.includes(value as string), words.join(' or '))

const IMAGE = 'is of the image of the reference’s server, which is not used'
const NOT_YET = 'cannot be run yet. Remove it, or set `start_command` in slipway.json to run a server of your own'

/** A name in a file, and not a model of a provider. */
export const isCode = (text: string) => /[/.]/.test(text.slice(0, Math.max(0, text.lastIndexOf(':'))))

const NO_UI = 'is not supported: components of a user interface are not served. Remove it'

const OWN_ORDER = 'has no effect: the caller is checked first, and middleware of `http.app` is for its own routes'
const SWEEPS = 'has no effect: the server looks each minute for what has expired'

const HTTP: Keys = {
  app: {
    form: text,
    instead:
      'is behind the key or the `auth` of the deployment, unless `http.enable_custom_route_auth` is false. Paths of ' +
      'the server come first, middleware is for its own routes, and WebSockets are not served',
  },
  cors: {
    form: object,
    members: {
      allow_origins: { form: texts },
      allow_methods: { form: texts },
      allow_headers: { form: texts },
      allow_credentials: { form: flag },
      allow_origin_regex: { form: form(isPattern, 'a regular expression of JavaScript with at most 1,000 characters') },
      expose_headers: { form: texts },
      max_age: { form: number },
    },
  },
  ...Object.fromEntries(
    ['assistants', 'threads', 'runs', 'store', 'mcp', 'meta'].map(name => [`disable_${name}`, { form: flag }]),
  ),
  disable_webhooks: { form: flag },
  disable_a2a: { form: flag },
  disable_ui: { form: flag },
  configurable_headers: { form: object, members: { includes: { form: texts }, excludes: { form: texts } } },
  logging_headers: { form: object, instead: 'has no effect: headers are not logged' },
  middleware_order: { form: oneOf('auth_first', 'middleware_first'), instead: OWN_ORDER },
  enable_custom_route_auth: { form: flag },
  mount_prefix: {
    form: form(value => typeof value === 'string' && /^\/[\w./-]*\w$/.test(value), 'a path such as "/graphs"'),
  },
}

const GRAPH_KEYS: Keys = {
  $schema: { form: text },
  graphs: { form: object },
  dependencies: { form: texts },
  source: {
    form: object,
    members: { kind: { form: oneOf('uv') }, root: { form: text }, package: { form: text } },
  },
  python_version: {
    form: form(
      value => typeof value === 'string' && /^3\.(1[1-9]|[2-9]\d)(-[a-z]+)?$/.test(value),
      '3.11 or newer, with two numbers, such as "3.12"',
    ),
  },
  node_version: {
    form: form(value => /^(2\d|[3-9]\d)$/.test(`${value}`), 'a major version from 20 on, such as "24"'),
  },
  env: {
    form: form(
      value => isText(value) || (Array.isArray(value) && value.every(isText)) || areVariables(value),
      'an object of texts with names of letters, digits and underscores, or the path of a .env file',
    ),
  },
  store: {
    form: object,
    members: {
      index: {
        form: object,
        isClosed: true,
        members: {
          dims: {
            form: form(
              value => Number.isInteger(value) && Number(value) > 0 && Number(value) <= 16_000,
              'a whole number from 1 to 16,000',
            ),
          },
          embed: {
            form: form(
              value => isText(value) && (isCode(value as string) || (value as string).startsWith('openai:')),
              '"openai:<model>", or a function as "<file>:<name>": models of others are not called by the server',
            ),
          },
          fields: {
            form: form(
              value => texts(value) === null && [value].flat().length > 0 && [value].flat().length <= 20,
              'a list of 1 to 20 paths',
            ),
          },
        },
      },
      ttl: {
        form: object,
        members: {
          refresh_on_read: { form: flag },
          default_ttl: { form: number },
          sweep_interval_minutes: { form: number, instead: SWEEPS },
        },
      },
    },
  },
  checkpointer: {
    form: object,
    members: {
      path: {
        form: text,
        refusal: 'cannot be used: checkpoints are kept in the database of the deployment. Remove it',
      },
      ttl: {
        form: object,
        members: {
          strategy: { form: oneOf('delete', 'keep_latest') },
          default_ttl: { form: number },
          sweep_interval_minutes: { form: number, instead: SWEEPS },
          sweep_limit: { form: number, instead: SWEEPS },
        },
      },
      serde: {
        form: object,
        isClosed: true,
        members: {
          allowed_json_modules: { form: modules },
          allowed_msgpack_modules: { form: modules },
          pickle_fallback: { form: flag },
        },
      },
    },
  },
  auth: {
    form: object,
    members: {
      path: { form: text },
      disable_studio_auth: { form: flag },
      openapi: {
        form: object,
        members: { securitySchemes: { form: object }, security: { form: objects }, paths: { form: object } },
      },
      cache: {
        form: object,
        members: { cache_keys: { form: texts }, ttl_seconds: { form: number }, max_size: { form: number } },
      },
    },
  },
  encryption: { form: object, refusal: NOT_YET, members: { path: { form: text } } },
  priority: {
    form: object,
    refusal: 'is not supported: runs start in the order in which they came. Remove it',
    members: { path: { form: text } },
  },
  http: { form: object, members: HTTP },
  webhooks: {
    form: object,
    isClosed: true,
    members: {
      env_prefix: { form: text },
      url: {
        form: object,
        isClosed: true,
        members: {
          require_https: { form: flag },
          allowed_domains: { form: texts },
          allowed_ports: {
            form: form(value => Array.isArray(value) && value.every(Number.isInteger), 'a list of ports'),
          },
          max_url_length: { form: number },
          disable_loopback: { form: flag },
        },
      },
      headers: { form: textsByName },
    },
  },
  ui: { form: textsByName, refusal: NO_UI },
  ui_config: { form: object, refusal: NO_UI },
  image_distro: { form: oneOf('debian', 'bookworm', 'wolfi'), instead: IMAGE },
  base_image: { form: text, instead: IMAGE },
  api_version: { form: text, instead: IMAGE },
  _INTERNAL_docker_tag: { form: text, instead: IMAGE },
  pip_config_file: { form: text },
  pip_installer: { form: oneOf('auto', 'pip', 'uv') },
  dockerfile_lines: {
    form: form(value => Array.isArray(value) && value.every(one => typeof one === 'string'), 'a list of lines'),
    instead: 'is not obeyed: no Dockerfile is made. Write one, or install it by `install_command`',
  },
  keep_pkg_tools: {
    form: form(value => typeof value === 'boolean' || texts(value) === null, 'true, false or a list of names'),
    instead: 'has no effect: pip and uv are not removed',
  },
  node_loader: { form: text, instead: 'has no effect: the server reads TypeScript itself' },
  docker_compose_file: {
    form: text,
    instead: 'has no effect: its services are not started. `slipway deploy` of the file itself deploys them',
  },
}

type KeyFindings = { faults: string[]; warnings: string[] }

const MAX_FINDINGS = 20

/** All faults of a file, and the sentences of a plan about its keys. An unknown key is a warning there. */
export function checkKeys(file: Record<string, unknown>): KeyFindings {
  const found: KeyFindings = { faults: [], warnings: [] }
  checkMembers(file, { members: GRAPH_KEYS }, '', found)
  return found
}

function checkMembers(
  value: Record<string, unknown>,
  { members: keys = {}, isClosed }: Pick<Key, 'members' | 'isClosed'>,
  path: string,
  found: KeyFindings,
): void {
  for (const [name, member] of Object.entries(value)) {
    if (found.warnings.length >= MAX_FINDINGS && found.faults.length >= MAX_FINDINGS) return
    const shown = `\`${path}${name.slice(0, 100)}\``
    const key = Object.hasOwn(keys, name) ? keys[name]! : undefined
    if (!key) {
      const list = isClosed ? found.faults : found.warnings
      if (list.length >= MAX_FINDINGS) continue
      const meant = nearestName(name, Object.keys(keys))
      if (isClosed) {
        found.faults.push(`${shown} is not known${meant ? `: did you mean \`${meant}\`?` : ''}`)
        continue
      }
      found.warnings.push(`${shown} is not known, and is not read.${meant ? ` Did you mean \`${meant}\`?` : ''}`)
      continue
    }
    // An absent value is often written as null.
    if (member === null || isEmpty(member)) continue
    const fault = key.form(member)
    if (fault) found.faults.push(`${shown} ${fault}`)
    else if (key.refusal) found.faults.push(`${shown} ${key.refusal}`)
    else if (key.instead) found.warnings.push(`${shown} ${key.instead}.`)
    if (!fault && key.members && isObject(member)) checkMembers(member, key, `${path}${name}.`, found)
  }
}

const isEmpty = (value: unknown) => (isObject(value) && Object.keys(value).length === 0) || value === false
