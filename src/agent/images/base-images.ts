// Finds the images that a Dockerfile uses in FROM, COPY and mounts. Refuses those that depend on the build. Pure.
import { PermanentError } from '../engine.ts'

type Variables = Map<string, string | undefined>

const DOCKERFILE_FRONTEND = /^(docker\.io\/)?docker\/dockerfile(-upstream)?(:[\w.-]+)?(@sha256:[0-9a-f]{64})?$/
/** Transports of some builders that read local images or files. */
const NON_REGISTRY_SOURCE =
  /^(containers-storage|docker-daemon|docker-archive|oci-archive|oci|dir|ostree|sif|tarball|atomic):/
const STAGE_NAME = /^[a-z][\w.-]*$/i
/** A stage name in a heredoc is not a stage, and could hide an image id. */
const IMAGE_ID_PREFIX = /^[0-9a-f]+$/i
const IMAGE_NAME = /^[\w.:/@-]+$/
const SHELL_WORD = /(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s\\"'])+/g
const ARCHITECTURES: Record<string, string> = { x64: 'amd64', ia32: '386' }

/** Leaves out the stages of the Dockerfile. `arch` is Node's name of the architecture. */
export function findBaseImages(dockerfile: string, arch: string = process.arch): string[] {
  const images = new Set<string>()
  const stages: (string | undefined)[] = []
  // Some builders leave the platform variables empty, so both values are tried.
  const platform = platformVariables(ARCHITECTURES[arch] ?? arch)
  const readings: Variables[] = [new Map(platform), platformVariables('')]
  const take = (image: string) => {
    const name = image.replace(/^docker:\/\//, '')
    if (NON_REGISTRY_SOURCE.test(name))
      throw new PermanentError(`The Dockerfile uses \`${image}\`, which is not in a registry. Name an image.`)
    if (IMAGE_NAME.test(name) && name.toLowerCase() !== 'scratch' && !stages.includes(name.toLowerCase()))
      images.add(name)
  }
  let hasHeredoc = false
  for (const line of parseInstructions(dockerfile)) {
    const [, instruction = '', rest = ''] = /^\s*(?:ONBUILD\s+)*([A-Za-z]+)\s+(.*)$/is.exec(line) ?? []
    const words = rest.match(SHELL_WORD) ?? []
    const first = words.findIndex(word => !word.startsWith('--'))
    const flags = words.slice(0, Math.max(first, 0))
    const keyword = instruction.toUpperCase()
    if (keyword === 'ARG' && stages.length === 0) {
      for (const variables of readings) declareArgs(words, variables)
      for (const [name, value] of platform) readings[0]!.set(name, value)
    }
    if (keyword === 'FROM') {
      const [image, as, stage] = words.slice(flags.length)
      if (image === undefined || (as !== undefined && as.toLowerCase() !== 'as')) continue
      for (const variables of readings) take(expandOrThrow(image, variables, `FROM ${image}`))
      stages.push(
        stage !== undefined && !(hasHeredoc && IMAGE_ID_PREFIX.test(stage)) && STAGE_NAME.test(stage)
          ? stage.toLowerCase()
          : undefined,
      )
    }
    hasHeredoc ||= rest.includes('<<')
    if (keyword !== 'COPY' && keyword !== 'ADD' && keyword !== 'RUN') continue
    for (const from of flags.flatMap(imagesInFlag)) {
      const image = expandOrThrow(from, null, `${keyword} … from=${from}`)
      if (!(/^\d+$/.test(image) && Number(image) < stages.length)) take(image)
    }
  }
  return [...images]
}

/** One instruction per line. Parser directives that would change the meaning of the file are refused. */
function parseInstructions(dockerfile: string): string[] {
  const text = dockerfile.replace(/^\uFEFF/, '').replace(/\r\n?/g, '\n')
  const top = /^(?:[^\S\n]*(?:(?:#|\/\/).*)?\n)*/.exec(`${text}\n`)![0]
  const remarks = top.split('\n')
  const syntaxes = remarks.flatMap(remark => /^\s*(?:#|\/\/)\s*syntax\s*=(.*)$/is.exec(remark)?.[1] ?? [])
  const frontend = syntaxes[0]?.trim() ?? /^\s*\{.*"syntax"\s*:\s*"([^"]*)"/.exec(text)?.[1]
  if (frontend !== undefined && !DOCKERFILE_FRONTEND.test(frontend))
    throw new PermanentError(
      `The Dockerfile uses the frontend \`${frontend}\`, which is not allowed. ` +
        `Set its \`syntax\` to \`docker/dockerfile\`, or remove it.`,
    )
  if (remarks.some(remark => /^\s*#\s*escape\s*=\s*`/i.test(remark)))
    throw new PermanentError('The Dockerfile has an `escape` directive for Windows, which is not supported. Remove it.')
  const lines: string[] = []
  let open = ''
  for (const line of text.split('\n')) {
    if (/^\s*#/.test(line) || (open !== '' && line.trim() === '')) continue
    const [, begun] = /^(.*)\\[ \t]*$/.exec(line) ?? []
    open += begun ?? line
    if (begun !== undefined) continue
    lines.push(open)
    open = ''
  }
  return [...lines, open]
}

/** Reads `--from=…` and `--mount=type=bind,from=…`. */
function imagesInFlag(flag: string): string[] {
  const [, name = '', value = ''] = /^--(\w+)=(.*)$/s.exec(unquote(flag)) ?? []
  if (name.toLowerCase() === 'from') return [value]
  if (name.toLowerCase() !== 'mount') return []
  return value.split(',').flatMap(part => /^\s*from\s*=(.*)$/is.exec(part)?.[1]?.trim() ?? [])
}

const unquote = (word: string) => word.replace(/\\(.)|["']/gs, (_, escaped: string | undefined) => escaped ?? '')

function platformVariables(architecture: string): Variables {
  const os = architecture && 'linux'
  const whole = architecture && `${os}/${architecture}`
  const of = (side: string) =>
    Object.entries({ PLATFORM: whole, OS: os, ARCH: architecture, VARIANT: '' }).map(
      ([what, value]): [string, string] => [side + what, value],
    )
  return new Map([...of('TARGET'), ...of('BUILD')])
}

function declareArgs(words: string[], variables: Variables): void {
  for (const word of words) {
    const [, name = '', value] = /^([A-Za-z_]\w*)(?:=(.*))?$/s.exec(word) ?? []
    if (value !== undefined) variables.set(name, expandWord(value, variables))
    else if (!variables.has(name)) variables.set(name, undefined)
  }
}

function expandOrThrow(word: string, variables: Variables | null, where: string): string {
  const value = expandWord(word, variables)
  if (value !== undefined) return value
  throw new PermanentError(
    variables === null
      ? `The image in \`${where}\` depends on a variable. ` +
          `Name the image in a stage (\`FROM … AS name\`), and use that stage.`
      : `The image in \`${where}\` depends on a variable without a default. ` +
          `Add \`ARG NAME=value\` above the first \`FROM\`, or name the image.`,
  )
}

/** Expands quotes, escapes and variables like a shell. Undefined if a variable has no value. */
function expandWord(word: string, variables: Variables | null): string | undefined {
  let expanded = ''
  let quote = ''
  for (let at = 0; at < word.length; ) {
    const rest = word.slice(at)
    const variable = quote === "'" ? null : /^\$(?:(\w+)|\{(\w+)(?:(:?[-+])([^{}$]*))?\})/.exec(rest)
    const sign = word[at]!
    if (variable) {
      const [all, bare, braced, operator, fallback = ''] = variable
      const value = variables?.get(bare ?? braced!)
      const isSet = value !== undefined && (value !== '' || !operator?.startsWith(':'))
      const taken = operator?.endsWith('+') ? (isSet ? fallback : '') : isSet || !operator ? value : fallback
      if (variables === null || taken === undefined) return undefined
      expanded += taken
      at += all.length
    } else if (sign === '$' && quote !== "'") return undefined
    else if (sign === '\\' && quote !== "'") {
      expanded += word[at + 1] ?? ''
      at += 2
    } else {
      if (quote === sign) quote = ''
      else if (quote === '' && (sign === '"' || sign === "'")) quote = sign
      else expanded += sign
      at++
    }
  }
  return expanded
}
