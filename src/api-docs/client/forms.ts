// The forms of the API pages: the key, which is kept for the tab, and the form of the operation, if the page has one.
import { codeExamples } from './code-examples.ts'
import { outputOf, select, selectAll } from './dom.ts'
import { keyForm, keyInput, tenantInput } from './request.ts'
import { refreshForm, renewIdempotencyKey, sendOrStop } from './send.ts'

const storageName = (input: HTMLElement) => `slipway.${input.id}`

const copyText = async (button: HTMLElement, text: string) => {
  // Undefined outside secure contexts.
  const clipboard: Clipboard | undefined = navigator.clipboard
  const isCopied = await clipboard?.writeText(text).then(
    () => true,
    () => false,
  )
  button.textContent = isCopied ? 'Copied' : 'Select and copy'
  setTimeout(() => {
    button.textContent = 'Copy'
  }, 1500)
}

export const setUpForms = () => {
  const form = document.querySelector<HTMLFormElement>('form.try')
  const language = form && select<HTMLSelectElement>('#language', form)
  language?.append(...Object.keys(codeExamples).map(name => new Option(name)))
  const [keyField, tenantField] = [keyInput(), tenantInput()]
  const kept = [keyField, tenantField, ...(language ? [language] : [])]

  const refresh = () => {
    for (const input of kept) sessionStorage.setItem(storageName(input), input.value)
    if (form) refreshForm(form)
  }

  /** Handlers by the `data-do` of a button. */
  const actions: Record<string, (button: HTMLElement, form: HTMLFormElement) => void> = {
    copy: (button, form) => void copyText(button, outputOf(form, 'code').textContent ?? ''),
    fresh: (_, form) => {
      renewIdempotencyKey(form)
      refreshForm(form)
    },
    forget: () => {
      keyField.value = ''
      tenantField.value = ''
      refresh()
    },
    reveal: button => {
      const reveals = keyField.type === 'password'
      keyField.type = reveals ? 'text' : 'password'
      button.textContent = reveals ? 'Hide' : 'Show'
      button.setAttribute('aria-pressed', String(reveals))
    },
  }

  const restore = () => {
    for (const input of kept) input.value = sessionStorage.getItem(storageName(input)) ?? input.value
    if (form) refreshForm(form)
  }
  restore()
  // A page that the browser kept for its back button must not bring back a key that was forgotten meanwhile.
  addEventListener('pageshow', restore)
  if (form) {
    renewIdempotencyKey(form)
    refreshForm(form)
    form.addEventListener('input', refresh)
    form.addEventListener('submit', event => {
      event.preventDefault()
      sendOrStop(form)
    })
  }
  for (const part of selectAll('#authentication, #key, form.try')) part.hidden = false
  keyForm().addEventListener('input', refresh)
  keyForm().addEventListener('submit', event => event.preventDefault())

  document.addEventListener('click', event => {
    const button = (event.target as Element).closest<HTMLElement>('[data-do]')
    const form = button?.closest('form')
    if (button && form) actions[button.dataset.do ?? '']?.(button, form)
  })
}
