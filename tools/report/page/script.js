'use strict';
// A link into a closed kernel opens it.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let element = target; element; element = element.parentElement)
    if (element.tagName === 'DETAILS') element.open = true;
  target.scrollIntoView();
}
addEventListener('hashchange', openTarget);
openTarget();

// A link to the kernel that is open at the address already changes no address.
document.addEventListener('click', event => {
  const link = event.target.closest('a');
  const href = link && link.getAttribute('href');
  if (href && href === location.hash) openTarget();
});

// The line of IR or CUDA under the pointer or the focus marks what belongs to it.
function mark(event) {
  for (const line of document.querySelectorAll('.marked')) line.classList.remove('marked');
  const line = event.target.closest && event.target.closest('[data-op]');
  if (!line) return;
  const ops = line.dataset.op.split(' ');
  for (const other of line.closest('.code').querySelectorAll('[data-op]'))
    other.classList.toggle('marked', other.dataset.op.split(' ').some(op => ops.includes(op)));
}
document.addEventListener('pointerover', mark);
document.addEventListener('focusin', mark);
