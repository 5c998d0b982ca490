// Navigation of the API pages: links into folded sections, the menu and its filter.
import { select, selectAll } from './dom.ts'

const anchorOf = (hash: string) => decodeURIComponent(hash.slice(1))

const unfoldTarget = () => {
  let element: HTMLElement | null = document.getElementById(anchorOf(location.hash))
  for (; element; element = element.parentElement) if (element instanceof HTMLDetailsElement) element.open = true
}

const setUpFilter = (filter: HTMLInputElement) => {
  const items = selectAll('[data-find]')
  const applyFilter = () => {
    const words = filter.value.toLowerCase().split(/\s+/)
    let matches = 0
    for (const item of items) {
      const text = `${item.dataset.find} ${item.textContent}`.toLowerCase()
      item.hidden = !words.every(word => text.includes(word))
      if (!item.hidden) matches++
    }
    for (const list of selectAll('nav ul')) {
      const isEmpty = filter.value !== '' && !list.querySelector('li[data-find]:not([hidden])')
      list.hidden = isEmpty
      const heading = list.previousElementSibling
      if (heading instanceof HTMLElement) heading.hidden = isEmpty
    }
    select('#found').textContent = filter.value ? `${matches} of ${items.length} operations` : ''
  }
  filter.addEventListener('input', applyFilter)
  filter.addEventListener('keydown', event => {
    if (event.key === 'Enter') document.querySelector<HTMLElement>('nav li[data-find]:not([hidden]) a')?.click()
    if (event.key === 'Escape') {
      filter.value = ''
      applyFilter()
      filter.blur()
    }
  })
}

const setUpMenu = (filter: HTMLInputElement, wideScreen: MediaQueryList) => {
  const menu = select<HTMLDetailsElement>('.menu')
  const openOnWideScreens = () => {
    menu.open = wideScreen.matches
  }
  wideScreen.addEventListener('change', openOnWideScreens)
  openOnWideScreens()
  // A link within this page loads no other one.
  select('nav').addEventListener('click', event => {
    if ((event.target as Element).closest('a')) openOnWideScreens()
  })
  document.addEventListener('keydown', event => {
    const isTyping = event.target instanceof Element && event.target.closest('input, textarea, select')
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || isTyping) return
    event.preventDefault()
    menu.open = true
    filter.focus()
  })
}

export const setUpNavigation = () => {
  const filter = select<HTMLInputElement>('#filter')
  const wideScreen = matchMedia('(min-width: 60rem)')
  addEventListener('hashchange', unfoldTarget)
  unfoldTarget()
  setUpFilter(filter)
  setUpMenu(filter, wideScreen)
  document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest' })
}
