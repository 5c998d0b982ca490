// The questions for reviewers as a text with a line for each key (pure).

export type RubricItem = { feedback_key: string; description?: string | null }

export const readRubric = (text: string): RubricItem[] =>
  text
    .split('\n')
    .map(line => /^([^:]*)(?::(.*))?$/.exec(line.trim()) ?? [])
    .flatMap(([, key = '', description = '']) =>
      key.trim() ? [{ feedback_key: key.trim(), ...(description.trim() && { description: description.trim() }) }] : [],
    )
