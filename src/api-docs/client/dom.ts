// Typed access to the elements of the API pages.

export const selectAll = <E extends HTMLElement = HTMLElement>(selector: string, root: ParentNode = document): E[] => [
  ...root.querySelectorAll<E>(selector),
]

export const select = <E extends HTMLElement = HTMLElement>(selector: string, root: ParentNode = document): E => {
  const element = root.querySelector<E>(selector)
  if (!element) throw new Error(`No element matches ${selector}`)
  return element
}

/** The part of a form that shows a result, by its `data-show`. */
export const outputOf = (form: HTMLFormElement, name: string) => select(`[data-show=${name}]`, form)
