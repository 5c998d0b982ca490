// Which images a Dockerfile takes: to begin with, to copy from, to mount. One that cannot be told beforehand is refused. Pure.
import { PermanentError } from '../engines/engine.ts'

type Variables = Map<string, string | undefined>

const DOCKERFILE_FRONTEND = /^(docker\.io\/)?docker\/dockerfile(-upstream)?(:[\w.-]+)?(@sha256:[0-9a-f]{64})?$/
/** What some builders take besides the name of an image: images of the machine, and files. */
const NON_REGISTRY_SOURCE =
  /^(containers-storage|docker-daemon|docker-archive|oci-archive|oci|dir|ostree|sif|tarball|atomic):/
const STAGE_NAME = /^[a-z][\w.-]*$/i
/** What may be the beginning of an image's id. A text within the file could call a stage so, which is none. */
const IMAGE_ID_PREFIX = /^[0-9a-f]+$/i
const IMAGE_NAME = /^[\w.:/@-]+$/
const SHELL_WORD = /(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s\\"'])+/g
const ARCHITECTURES: Record<string, string> = { x64: 'amd64', ia32: '386' }

/** Not the stages that it builds itself. `arch` as Node names it. */
export function findBaseImages(dockerfile: string, arch: string = process.arch): string[] {
  const found = new Set<string>()
  const stages: (string | undefined)[] = []
  // A builder that knows nothing of platforms takes their variables for empty.
  const known = platformVariables(ARCHITECTURES[arch] ?? arch)
  const readings: Variables[] = [new Map(known), platformVariables('')]
  const take = (image: string) => {
    const name = image.replace(/^docker:\/\//, '')
    if (NON_REGISTRY_SOURCE.test(name))
      throw new PermanentError(`The Dockerfile takes \`${image}\`, which no registry has: name an image.`)
    if (IMAGE_NAME.test(name) && name.toLowerCase() !== 'scratch' && !stages.includes(name.toLowerCase()))
      found.add(name)
  }
  let within = false
  for (const line of parseInstructions(dockerfile)) {
    const [, instruction = '', rest = ''] = /^\s*(?:ONBUILD\s+)*([A-Za-z]+)\s+(.*)$/is.exec(line) ?? []
    const words = rest.match(SHELL_WORD) ?? []
    const first = words.findIndex(word => !word.startsWith('--'))
    const flags = words.slice(0, Math.max(first, 0))
    const kind = instruction.toUpperCase()
    if (kind === 'ARG' && stages.length === 0) {
      for (const variables of readings) declareArgs(words, variables)
      for (const [name, value] of known) readings[0]!.set(name, value)
    }
    if (kind === 'FROM') {
      const [image, as, stage] = words.slice(flags.length)
      if (image === undefined || (as !== undefined && as.toLowerCase() !== 'as')) continue
      for (const variables of readings) take(expandOrThrow(image, variables, `FROM ${image}`))
      stages.push(
        stage !== undefined && !(within && IMAGE_ID_PREFIX.test(stage)) && STAGE_NAME.test(stage)
          ? stage.toLowerCase()
          : undefined,
      )
    }
    within ||= rest.includes('<<')
    if (kind !== 'COPY' && kind !== 'ADD' && kind !== 'RUN') continue
    for (const from of flags.flatMap(imagesInFlag)) {
      const image = expandOrThrow(from, null, `${kind} … from=${from}`)
      if (!(/^\d+$/.test(image) && Number(image) < stages.length)) take(image)
    }
  }
  return [...found]
}

/** One instruction a line. Of what is read from the top of the file, two things decide what the rest means. */
function parseInstructions(dockerfile: string): string[] {
  const text = dockerfile.replace(/^\uFEFF/, '').replace(/\r\n?/g, '\n')
  const top = /^(?:[^\S\n]*(?:(?:#|\/\/).*)?\n)*/.exec(`${text}\n`)![0]
  const remarks = top.split('\n')
  const syntaxes = remarks.flatMap(remark => /^\s*(?:#|\/\/)\s*syntax\s*=(.*)$/is.exec(remark)?.[1] ?? [])
  const frontend = syntaxes[0]?.trim() ?? /^\s*\{.*"syntax"\s*:\s*"([^"]*)"/.exec(text)?.[1]
  if (frontend !== undefined && !DOCKERFILE_FRONTEND.test(frontend))
    throw new PermanentError(
      `The Dockerfile wants to be read by \`${frontend}\`, which could take any image: name \`docker/dockerfile\` as its \`syntax\`, or none.`,
    )
  if (remarks.some(remark => /^\s*#\s*escape\s*=\s*`/i.test(remark)))
    throw new PermanentError('The Dockerfile escapes by another sign than `\\`, as for Windows: take its `escape` out.')
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

/** Of `--from=…` and of `--mount=type=bind,from=…`. */
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
      ? `Which image \`${where}\` takes is not known before it is built: begin a stage with it (\`FROM … AS name\`), and take it from there.`
      : `Which image the Dockerfile begins with at \`${where}\` is not known before it is built: give each of its variables a default by \`ARG NAME=value\` above the first \`FROM\`, or name the image.`,
  )
}

/** As a shell would read it: quotes, escapes, variables with what is to be in their place. Undefined where that is not known. */
function expandWord(word: string, variables: Variables | null): string | undefined {
  let said = ''
  let quote = ''
  for (let at = 0; at < word.length; ) {
    const rest = word.slice(at)
    const variable = quote === "'" ? null : /^\$(?:(\w+)|\{(\w+)(?:(:?[-+])([^{}$]*))?\})/.exec(rest)
    const sign = word[at]!
    if (variable) {
      const [all, bare, braced, how, other = ''] = variable
      const value = variables?.get(bare ?? braced!)
      const there = value !== undefined && (value !== '' || !how?.startsWith(':'))
      const taken = how?.endsWith('+') ? (there ? other : '') : there || !how ? value : other
      if (variables === null || taken === undefined) return undefined
      said += taken
      at += all.length
    } else if (sign === '$' && quote !== "'") return undefined
    else if (sign === '\\' && quote !== "'") {
      said += word[at + 1] ?? ''
      at += 2
    } else {
      if (quote === sign) quote = ''
      else if (quote === '' && (sign === '"' || sign === "'")) quote = sign
      else said += sign
      at++
    }
  }
  return said
}
