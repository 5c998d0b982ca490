// Prints the types of all routes without imports: from the checker, which knows them exactly, with the names and the
// descriptions of the OpenAPI document.
import { join } from 'node:path'
import {
  API,
  type Checker,
  type Symbol as Member,
  type Project,
  SymbolFlags,
  type Type,
  TypeFlags,
} from 'typescript/unstable/sync'
import { loadOperations } from '../../src/app.ts'
import { buildOpenApi, type OpenApiDocument } from '../../src/kernel/http/openapi.ts'

/** The document's words about a type. Everything in it is optional: the checker decides. */
type Described = {
  $ref?: string
  description?: string
  properties?: Record<string, Described>
  additionalProperties?: Described | boolean
  items?: Described
  prefixItems?: Described[]
  anyOf?: Described[]
  oneOf?: Described[]
  deprecated?: boolean
}
type DescribedOperation = {
  summary: string
  description: string
  parameters?: { name: string; in: string; description?: string; schema: Described }[]
  requestBody?: { content: Record<string, { schema: Described }> }
  responses: Record<string, { content?: Record<string, { schema: Described }> }>
}

const NAME = /^[A-Za-z_$][\w$]*$/
const quote = (text: string): string => `'${text.replace(/[\\']/g, '\\$&')}'`
const nameMember = (name: string): string => (NAME.test(name) ? name : quote(name))
const indent = (text: string): string => text.replaceAll('\n', '\n  ')

function comment(...parts: (string | undefined)[]): string {
  const text = parts.filter(Boolean).join('\n\n').replaceAll('*/', '*\\/')
  if (text === '') return ''
  const lines = text.split('\n')
  return lines.length === 1 ? `/** ${text} */\n` : `/**\n${lines.map(line => ` * ${line}`.trimEnd()).join('\n')}\n */\n`
}

class Printer {
  readonly declarations = new Map<string, string>()
  #checker: Checker
  #undefinedId: number
  #components: Record<string, Described>
  #nameOf = new Map<number, string>()
  #inProgress = new Map<number, string | undefined>()

  constructor(checker: Checker, components: Record<string, Described>) {
    this.#checker = checker
    this.#undefinedId = checker.getUndefinedType().id
    this.#components = components
  }

  print(type: Type, described: Described = {}): string {
    const { flags } = type
    if (flags & TypeFlags.Boolean) return 'boolean'
    if (type.isStringLiteralType()) return quote(type.value)
    if (type.isNumberLiteralType() || type.isBooleanLiteralType()) return String(type.value)
    if (type.isIntrinsicType()) return type.intrinsicName
    if (type.isUnionType()) return this.#printUnion(type.getTypes(), described)
    if (type.isTemplateLiteralType()) return this.#checker.typeToString(type)
    return this.#printObject(type, described)
  }

  /**
   * The checker adds `undefined` to an optional member also where `exactOptionalPropertyTypes` does not allow it, by a
   * type of its own.
   */
  #printUnion(all: readonly Type[], described: Described): string {
    const types = all.filter(type => !(type.flags & TypeFlags.Undefined) || type.id === this.#undefinedId)
    const options = (described.anyOf ?? described.oneOf ?? [described]).filter(one => this.#isStructured(one))
    const structured = types.filter(type => type.flags & TypeFlags.Object)
    const isPaired = options.length === structured.length
    const printed = types.map(type =>
      this.print(type, isPaired && type.flags & TypeFlags.Object ? options[structured.indexOf(type)] : {}),
    )
    const unique = [...new Set(printed)]
    const isBoolean = unique.includes('true') && unique.includes('false')
    const shown = isBoolean ? [...unique.filter(text => !/^(true|false)$/.test(text)), 'boolean'] : unique
    // Null and undefined are read last.
    return shown
      .toSorted((a, b) => Number(/^(null|undefined)$/.test(a)) - Number(/^(null|undefined)$/.test(b)))
      .join(' | ')
  }

  #resolve(described: Described): Described {
    return described.$ref ? (this.#components[described.$ref.split('/').at(-1)!] ?? {}) : described
  }

  #isStructured(described: Described): boolean {
    const { properties, items, prefixItems, additionalProperties } = this.#resolve(described)
    return Boolean(properties ?? items ?? prefixItems ?? additionalProperties)
  }

  #printObject(type: Type, described: Described): string {
    const known = this.#nameOf.get(type.id)
    if (known) return known
    const wanted = described.$ref?.split('/').at(-1)?.replace(/\W/g, '_')
    if (this.#inProgress.has(type.id)) {
      const name = this.#inProgress.get(type.id) ?? this.#freeName('Recursive')
      this.#inProgress.set(type.id, name)
      return name
    }
    this.#inProgress.set(type.id, undefined)
    const resolved = this.#resolve(described)
    const text = this.#printMembers(type, resolved)
    const recursive = this.#inProgress.get(type.id)
    this.#inProgress.delete(type.id)
    if (recursive) return this.#declare(type, recursive, text, resolved)
    if (!wanted || !text.startsWith('{')) return text
    const isFree =
      !this.declarations.has(wanted) || this.declarations.get(wanted) === this.#declaration(wanted, text, resolved)
    // A body and a reply with the same schema can differ in what is optional.
    return isFree ? this.#declare(type, wanted, text, resolved) : text
  }

  #declaration(name: string, text: string, { description }: Described): string {
    return `${comment(description)}export type ${name} = ${text}`
  }

  #declare(type: Type, name: string, text: string, described: Described): string {
    this.declarations.set(name, this.#declaration(name, text, described))
    this.#nameOf.set(type.id, name)
    return name
  }

  #freeName(base: string): string {
    let number = 1
    while (this.declarations.has(`${base}${number}`) || [...this.#inProgress.values()].includes(`${base}${number}`))
      number++
    return `${base}${number}`
  }

  #printMembers(type: Type, described: Described): string {
    const checker = this.#checker
    if (checker.isTupleType(type)) return this.#printTuple(type, described)
    if (checker.isArrayType(type)) {
      const [item] = checker.getTypeArguments(type as never)
      const text = this.print(item!, described.items)
      const isCompound = text.startsWith('readonly ') || (item!.isUnionType() && text.includes(' | '))
      const isReadonly = checker.typeToString(type).startsWith('readonly ')
      return `${isReadonly ? 'readonly ' : ''}${isCompound ? `(${text})` : text}[]`
    }
    const properties = checker.getPropertiesOfType(type)
    const types = checker.getTypeOfSymbol(properties)
    const members = properties.map((property, i) => this.#printMember(property, types[i]!, described.properties))
    const { additionalProperties } = described
    const ofOthers = typeof additionalProperties === 'object' ? additionalProperties : {}
    for (const { keyType, valueType } of checker.getIndexInfosOfType(type))
      members.push(`[name: ${this.print(keyType)}]: ${this.print(valueType, ofOthers)}`)
    if (members.length === 0) return '{}'
    return `{\n  ${members.map(indent).join('\n  ')}\n}`
  }

  #printTuple(type: Type, described: Described): string {
    const items = this.#checker.getTypeArguments(type as never)
    return `[${items.map((item, i) => this.print(item, described.prefixItems?.[i])).join(', ')}]`
  }

  #printMember(property: Member, type: Type, described: Record<string, Described> = {}): string {
    const own = described[property.name] ?? {}
    const description = own.description ?? this.#resolve(own).description
    const isOptional = Boolean(property.flags & SymbolFlags.Optional)
    const text = this.print(type, own)
    const note = comment(description, own.deprecated ? '@deprecated' : undefined)
    return `${note}${nameMember(property.name)}${isOptional ? '?' : ''}: ${text}`
  }
}

const jsonSchemaOf = (content: Record<string, { schema: Described }> | undefined): Described =>
  content?.['application/json']?.schema ?? Object.values(content ?? {})[0]?.schema ?? {}

/** The members of a route in `Api`, as the document describes them. */
function describeCall({ parameters = [], requestBody, responses }: DescribedOperation): Record<string, Described> {
  const ofPlace = (place: string): Described => ({
    properties: Object.fromEntries(
      parameters
        .filter(one => one.in === place)
        .map(({ name, description, schema }) => [name, { ...schema, ...(description && { description }) }]),
    ),
  })
  const replies = Object.entries(responses).filter(([status]) => status.startsWith('2'))
  const created = replies.find(([status]) => status !== '200') ?? replies[0]
  const [reply, variant] = jsonSchemaOf(created?.[1].content).oneOf ?? [jsonSchemaOf(created?.[1].content)]
  return {
    params: ofPlace('path'),
    query: ofPlace('query'),
    body: jsonSchemaOf(requestBody?.content),
    reply: reply ?? {},
    plan: variant ?? (replies.length > 1 ? jsonSchemaOf(responses['200']?.content) : {}),
  }
}

/** The text of a module that exports `Api` and the types that it refers to. */
export async function printApi(root: string): Promise<string> {
  const document = buildOpenApi(await loadOperations())
  const compiler = new API({ cwd: root })
  try {
    const configFile = join(root, 'scripts/client-types/tsconfig.json')
    const [project] = compiler.updateSnapshot({ openProjects: [configFile] }).getProjects()
    return printRoutes(project!, join(root, 'src/app.ts'), document)
  } finally {
    compiler.close()
  }
}

function printRoutes({ checker, program }: Project, path: string, document: OpenApiDocument): string {
  const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(path)!)!)
  const declared = checker.getDeclaredTypeOfSymbol(exported.find(({ name }) => name === 'Api')!)
  const printer = new Printer(checker, (document.components as { schemas: Record<string, Described> }).schemas)
  const routes = checker.getPropertiesOfType(declared).toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const types = checker.getTypeOfSymbol(routes)
  const members = routes.map((route, i) => {
    const [method, path] = route.name.split(' ') as [string, string]
    const operation = document.paths[path]![method.toLowerCase()] as DescribedOperation
    const text = printer.print(types[i]!, { properties: describeCall(operation) })
    return `${comment(operation.summary, operation.description)}${quote(route.name)}: ${text}`
  })
  const note = '/** Each route, by its method and path: what a call sends, and what it answers. */'
  const api = `${note}\nexport interface Api {\n  ${members.map(indent).join('\n  ')}\n}`
  return `${[...printer.declarations.values(), api].join('\n\n')}\n`
}
