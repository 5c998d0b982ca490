// The template of a summary prompt: which variables it names, and their values filled in (pure).

/** `{{run.inputs}}`, `{{{run.inputs.question}}}`, `{{ all_thread_messages }}`. Nothing is escaped either way. */
const VARIABLE = /\{\{\{?([^{}]*)\}?\}\}/g
const KNOWN = /^(?:run\.(?:inputs|outputs)(?:\.[^.\s]+)*|run\.error|run\.feedback(?:\.[^\s]+)?|all_thread_messages)$/

export const DEFAULT_SUMMARY_PROMPT = '{{run.inputs}}\n\n{{run.outputs}}\n\n{{run.error}}'

export const VARIABLES = 'run.inputs, run.outputs, run.error, run.feedback, run.feedback.<key>, all_thread_messages'

export const listVariables = (template: string): string[] => [
  ...new Set([...template.matchAll(VARIABLE)].map(([, name]) => name!.trim())),
]

export const listUnknownVariables = (template: string): string[] =>
  listVariables(template).filter(name => !KNOWN.test(name))

export const fillTemplate = (template: string, readValue: (name: string) => string): string =>
  template.replace(VARIABLE, (_, name: string) => readValue(name.trim()))
