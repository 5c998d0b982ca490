// The forms of the API pages: the key, which is kept for the tab, and one form for each operation.
import { outputOf, selectAll } from './dom.ts'
import { keyForm, keyInput, tenantInput } from './request.ts'
import { refreshForm, renewIdempotencyKey, sendOrStop } from './send.ts'

const storageName = (input: HTMLInputElement) => `slipway.${input.id}`

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
  const forms = selectAll<HTMLFormElement>('form.try')

  const saveKey = () => {
    for (const input of [keyInput, tenantInput]) {
      if (input.value) sessionStorage.setItem(storageName(input), input.value)
      else sessionStorage.removeItem(storageName(input))
    }
    forms.forEach(refreshForm)
  }

  /** By the `data-do` of a button. */
  const actions: Record<string, (button: HTMLElement, form: HTMLFormElement) => void> = {
    copy: (button, form) => void copyText(button, outputOf(form, 'curl').textContent ?? ''),
    fresh: (_, form) => {
      renewIdempotencyKey(form)
      refreshForm(form)
    },
    forget: () => {
      keyInput.value = ''
      tenantInput.value = ''
      saveKey()
    },
    reveal: button => {
      const reveals = keyInput.type === 'password'
      keyInput.type = reveals ? 'text' : 'password'
      button.textContent = reveals ? 'Hide' : 'Show'
      button.setAttribute('aria-pressed', String(reveals))
    },
  }

  for (const input of [keyInput, tenantInput]) input.value = sessionStorage.getItem(storageName(input)) ?? ''
  for (const form of forms) {
    renewIdempotencyKey(form)
    refreshForm(form)
    form.hidden = false
    form.addEventListener('input', () => refreshForm(form))
    form.addEventListener('submit', event => {
      event.preventDefault()
      sendOrStop(form)
    })
  }
  keyForm.hidden = false
  keyForm.addEventListener('input', saveKey)
  keyForm.addEventListener('submit', event => event.preventDefault())

  document.addEventListener('click', event => {
    const button = (event.target as Element).closest<HTMLElement>('[data-do]')
    const form = button?.closest('form')
    if (button && form) actions[button.dataset.do ?? '']?.(button, form)
  })
}
