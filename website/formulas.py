"""The formulas of the losses, typeset as MathML, which browsers render without scripts."""

from __future__ import annotations

from typing import Final

from latex2mathml.converter import convert

LATEX: Final = {
    "ada_dual_focal": r"-(1-p_y+p_j)^{\gamma_b}\log p_y,\quad \gamma_b \text{ as in AdaFocal}",
    "adafocal": (
        r"-(1-p_y)^{\gamma_b}\log p_y,\quad \gamma_b\leftarrow\gamma_b\,e^{\lambda(C_b-A_b)}"
    ),
    "aucm": (
        r"(1-q)\,E_{+}[(p-a)^2]+q\,E_{-}[(p-b)^2]+2\alpha\left(q(1-q)m+q\,E_{-}[p]"
        r"-(1-q)\,E_{+}[p]\right)-q(1-q)\alpha^2"
    ),
    "avuc": (
        r"-\log p_y+\lambda\log\left(1+\frac{n_{AU}+n_{IC}}{n_{AC}+n_{IU}}\right),\quad"
        r" n_{AC}=\sum_{AC}c_i(1-\tanh u_i),\quad n_{IU}=\sum_{IU}(1-c_i)\tanh u_i"
    ),
    "brier": r"\lVert p-\mathrm{onehot}(y)\rVert^2",
    "cals_alm": (
        r"-\log p_y+\frac{1}{K}\sum_k P\left(\frac{\max_j z_j-z_k}{m}-1,\rho_k,\lambda_k\right)"
    ),
    "cals_hr": r"-\log p_y+\frac{1}{K}\sum_k\lambda_k\max(0,\max_j z_j-z_k-m)",
    "cpc": (
        r"-\log p_y-\frac{\lambda_d}{K-1}\sum_{j\ne y}\log\sigma(z_y-z_j)"
        r"-\frac{\lambda_e}{2(K-1)(K-2)}\sum_{j,k\ne y}\log\sigma(z_j-z_k)"
    ),
    "crl": (
        r"-\log p_y+\lambda\,\mathrm{mean}_{i,j}\max\left(0,"
        r"-\mathrm{sign}(\kappa_i-\kappa_j)(c_i-c_j)+|\kappa_i-\kappa_j|\right)"
    ),
    "cross_entropy": r"-\log p_y",
    "dual_focal": r"-(1-p_y+p_j)^{\gamma}\log p_y,\quad p_j=\max\{p_i:p_i<p_y\}",
    "ecp": r"-\log p_y-\lambda H(p)",
    "focal": r"-(1-p_y)^{\gamma}\log p_y",
    "focal_calibration": r"-(1-p_y)^{\gamma}\log p_y+\lambda\sum_k|p_k-\mathrm{onehot}(y)_k|^p",
    "focal_sample_dependent": (
        r"-(1-p_y)^{\gamma}\log p_y,\quad \gamma=5\text{ if }p_y<0.2\text{, else }3"
    ),
    "inverse_focal": r"-(1+p_y)^{\gamma}\log p_y",
    "kde_xe": (
        r"-\log p_y+\lambda\sum_k\left|\sum_{j\ne i}w_{ij}\,1[y_j=k]-p_{ik}\right|^p,\quad"
        r" w_{ij}\propto\mathrm{Dir}(p_i;\,p_j/h+1)"
    ),
    "label_smoothing": r"-\sum_k\left((1-\alpha)\,1[k=y]+\frac{\alpha}{K}\right)\log p_k",
    "logitnorm": r"-\log\mathrm{softmax}\left(\frac{z}{\tau(\lVert z\rVert+10^{-7})}\right)_y",
    "maxsup": r"-\log p_y+\alpha\left(\max_k z_k-\frac{1}{K}\sum_k z_k\right)",
    "mbls": r"-\log p_y+\frac{\lambda}{K}\sum_k\max(0,\max_j z_j-z_k-m)",
    "mdca": (
        r"-(1-p_y)^{\gamma}\log p_y+\frac{\beta}{K}\sum_k"
        r"\left|\mathrm{mean}_i\,p_{ik}-\mathrm{mean}_i\,1[y_i=k]\right|"
    ),
    "mixup": (
        r"-w\log p_y(\hat{x})-(1-w)\log p_{y'}(\hat{x}),\quad \hat{x}=wx+(1-w)x',"
        r"\quad w\sim\mathrm{Beta}(\alpha,\alpha)"
    ),
    "dece": (
        r"-\log p_y+\frac{\lambda}{N}\sum_j\left|\sum_i u_{ij}(a_i-c_i)\right|,\quad"
        r" a=\max\left(0,1-\sum_{k\ne y}\sigma(100(p_k-p_y))\right)"
    ),
    "mmce": (r"-\log p_y+\frac{\lambda}{n^2}\sum_{i,j}(c_i-r_i)(c_j-r_j)\,e^{-|c_i-c_j|/0.4}"),
    "r_aurc": r"-\left((1-\lambda)-\lambda\ln\left(1-\frac{\hat{r}_i}{n+1}\right)\right)\log p_y",
    "refinement": (
        r"\min_{p\in P(i)}\tfrac{1}{2}\lVert f_i-f_p\rVert^2"
        r"-\min_{n\in N(i)}\tfrac{1}{2}\lVert f_i-f_n\rVert^2"
    ),
    "soft_avuc": (
        r"-\log p_y+\lambda\log\left(1+\frac{n_{AU}+n_{IC}}{n_{AC}+n_{IU}}\right),\quad"
        r" t=\sigma\left(\frac{1}{\tau}\log\frac{v(1-\kappa)}{(1-v)\kappa}\right),"
        r"\quad v=\frac{u}{\log K}"
    ),
    "soft_ece": (
        r"-\log p_y+\lambda\left(\sum_j S_j(A_j-C_j)^2\right)^{1/2},\quad"
        r" u_{ij}=\mathrm{softmax}_j\left(-\frac{(c_i-\xi_j)^2}{\tau}\right)"
    ),
    "supcon": (
        r"-\mathrm{mean}_{p\in P(i)}\log\frac{\exp(f_i\cdot f_p/\tau)}"
        r"{\sum_{a\ne i}\exp(f_i\cdot f_a/\tau)}"
    ),
}


def typeset(name: str) -> str:
    """The formula of a loss as MathML.

    Raises:
        KeyError: The loss has no LaTeX here.
    """
    math: str = convert(LATEX[name], display="block")
    return math
